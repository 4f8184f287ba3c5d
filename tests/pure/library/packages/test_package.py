# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way back leads to the packages that were there, and touches no other."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Package,
    Rollback,
    State,
    in_words,
    rollback,
)
from hypothesis import given
from hypothesis import strategies as st

Packages = dict[str, Package]
VERSIONS = st.sampled_from("12")
NAMES = st.sampled_from(["libcuda1", "nvidia-smi", "nvidia-open-kernel-dkms", "dkms", "vim"])
WHOLE = st.builds(
    Package,
    VERSIONS,
    st.just(""),
    st.just(State.INSTALLED),
    st.booleans(),
    torn=st.just(value=False),
)
ANY = st.builds(
    Package, VERSIONS, st.just(""), st.sampled_from(State), st.booleans(), st.booleans()
)
PACKAGES = st.dictionaries(NAMES, ANY)
FINE = st.dictionaries(NAMES, WHOLE)


def done(now: Packages, undo: Rollback) -> Packages:
    """Return the packages after the way back, as a package manager leaves them."""
    after = {name: one for name, one in now.items() if name not in undo.remove}
    for name, version in undo.packages.items():
        held = name in now and now[name].held
        after[name] = Package(version, "", State.INSTALLED, held)
    for name in undo.holds:
        after[name] = after[name]._replace(held=True)
    return after


@given(FINE, PACKAGES)
def test_way_back_ends_where_it_began(before: Packages, now: Packages) -> None:
    after = done(now, rollback(before, now))
    assert not rollback(before, after)
    there = {name: one for name, one in after.items() if not one.gone}
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
        (
            Package("1", "", State.INSTALLED),
            Package("2", "", State.HALF_CONFIGURED),
            Rollback({"smi": "1"}, (), ()),
        ),
        (
            Package("1", "", State.INSTALLED, held=True),
            Package("2", "", State.UNPACKED),
            Rollback({"smi": "1"}, (), ("smi",)),
        ),
        (
            Package("1", "", State.INSTALLED, held=True),
            Package("2", "", State.HALF_INSTALLED, held=True, torn=True),
            Rollback({"smi": "1"}, (), ()),
        ),
        (
            Package("1", "", State.CONFIG_FILES),
            Package("2", "", State.HALF_CONFIGURED),
            Rollback({}, ("smi",), ()),
        ),
        (
            Package("1", "", State.HALF_CONFIGURED),
            Package("2", "", State.UNPACKED),
            Rollback({}, (), ()),
        ),
        (
            Package("1", "", State.INSTALLED),
            Package("2", "", State.CONFIG_FILES),
            Rollback({"smi": "1"}, (), ()),
        ),
        (
            Package("1", "", State.NOT_INSTALLED),
            Package("2", "", State.INSTALLED),
            Rollback({}, ("smi",), ()),
        ),
    ],
)
def test_states_of_packages(old: Package, new: Package, expected: Rollback) -> None:
    assert rollback({"smi": old}, {"smi": new}) == expected


def test_waiting_for_a_trigger_is_no_difference() -> None:
    before = {"libc-bin": Package("1", "", State.INSTALLED)}
    assert not rollback(before, {"libc-bin": Package("1", "", State.TRIGGERS_PENDING)})


def test_states_are_told_in_words() -> None:
    undo = Rollback({"a": "1", "b": "1"}, ("c",), ())
    now = {"a": Package("2", "", State.HALF_CONFIGURED), "c": Package("2", "", State.UNPACKED)}
    assert in_words(undo, now) == {
        "a": "2, half configured",
        "b": "not installed",
        "c": "2, unpacked, not configured",
    }
