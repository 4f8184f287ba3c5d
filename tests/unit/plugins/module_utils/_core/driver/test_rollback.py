# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way back leads to the packages that were there, and touches no other."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.driver.rollback import (
    Rollback,
    in_words,
    rollback,
)
from ansible_collections.gpu.node.plugins.module_utils._core.packages.apt import Package
from hypothesis import given
from hypothesis import strategies as st

Packages = dict[str, Package]
STATES = ("ii ", "hi ", "iU ", "iF ", "iHR", "rc ", "un ", "hn ", "iW ", "it ")
NAMES = st.sampled_from(["libcuda1", "nvidia-smi", "nvidia-open-kernel-dkms", "dkms", "vim"])
PACKAGES = st.dictionaries(
    NAMES, st.builds(Package, st.sampled_from("12"), st.just(""), st.sampled_from(STATES))
)
FINE = st.dictionaries(
    NAMES, st.builds(Package, st.sampled_from("12"), st.just(""), st.sampled_from(("ii ", "hi ")))
)


def done(now: Packages, undo: Rollback) -> Packages:
    """Return the packages after the way back, as a package manager leaves them."""
    after = {name: one for name, one in now.items() if name not in undo.remove}
    for name, version in undo.packages.items():
        letter = now[name].state[0] if name in now else "i"
        after[name] = Package(version, "", f"{letter}i ")
    for name in undo.holds:
        after[name] = after[name]._replace(state="h" + after[name].state[1:])
    return after


@given(FINE, PACKAGES)
def test_way_back_ends_where_it_began(before: Packages, now: Packages) -> None:
    after = done(now, rollback(before, now))
    assert not rollback(before, after)
    there = {name: one for name, one in after.items() if one.state[1] not in "nc"}
    assert {name: one.version for name, one in there.items()} == {
        name: one.version for name, one in before.items()
    }
    assert all(there[name].held for name, one in before.items() if one.held)


@given(PACKAGES, PACKAGES)
def test_only_what_differs_is_touched(before: Packages, now: Packages) -> None:
    undo = rollback(before, now)
    for name in {*undo.packages, *undo.remove, *undo.holds}:
        assert before.get(name) != now.get(name)
    assert not set(undo.packages) & set(undo.remove)
    assert set(undo.packages) <= set(before)
    assert not set(undo.remove) & {name for name, one in before.items() if one.installed}


@given(PACKAGES)
def test_nothing_is_undone_where_nothing_was_done(before: Packages) -> None:
    assert not rollback(before, before)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ii ", "iF ", Rollback({"smi": "1"}, (), ())),
        ("hi ", "iU ", Rollback({"smi": "1"}, (), ("smi",))),
        ("hi ", "hHR", Rollback({"smi": "1"}, (), ())),
        ("rc ", "iF ", Rollback({}, ("smi",), ())),
        ("iF ", "iU ", Rollback({}, (), ())),
        ("ii ", "rc ", Rollback({"smi": "1"}, (), ())),
        ("un ", "ii ", Rollback({}, ("smi",), ())),
    ],
)
def test_states_of_dpkg(old: str, new: str, expected: Rollback) -> None:
    now = {"smi": Package("2", "", new)}
    assert rollback({"smi": Package("1", "", old)}, now) == expected


def test_waiting_for_a_trigger_is_no_difference() -> None:
    before = {"libc-bin": Package("1", "", "ii ")}
    assert not rollback(before, {"libc-bin": Package("1", "", "it ")})


def test_states_are_told_in_words() -> None:
    undo = Rollback({"a": "1", "b": "1"}, ("c",), ())
    now = {"a": Package("2", "", "iF "), "c": Package("2", "", "iU ")}
    assert in_words(undo, now) == {
        "a": "2, half configured",
        "b": "not installed",
        "c": "2, unpacked, not configured",
    }
