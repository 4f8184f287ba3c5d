# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The user's preferences bound what a run brings; an exact version overrules them, and says so. apt is genuine."""

from __future__ import annotations

import pytest

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEWER, OLD, driver, full, prebuilt
from tests.runner.tiers import long_but_first

PREFERENCES = "/etc/apt/preferences.d/house"
PIN = "Package: *nvidia*580*\nPin: version 580.95.05*\nPin-Priority: {}\n"
BOTH = (*archive.A, *driver(NEWER), *prebuilt(K85, NEWER, "+3"))
COMPUTE = "libnvidia-compute-580-server"


@pytest.fixture
def pinned(ubuntu: Machines) -> Ubuntu:
    """Return a node whose archive has two versions of the branch, of which the user has pinned the older one."""
    node = ubuntu(BOTH, K85)
    node.enable()
    node.put(PREFERENCES[1:], PIN.format(1001))
    return node


@pytest.mark.parametrize("options", long_but_first([{"version": "580"}, {}, {"update": True}]))
def test_pin_bounds_a_branch(pinned: Ubuntu, options: dict[str, object]) -> None:
    assert not [text for text in planned(pinned, **options).warnings if PREFERENCES in text]
    assert converge(pinned, **options).steps == ()
    assert pinned.installed()[COMPUTE] == full(OLD)
    assert planned(pinned, check_mode=False, **options).steps == ()
    assert reported(pinned, **options)["newer_version"] == ""
    assert converge(pinned, version="580", update=True).steps == ()
    assert pinned.installed()[COMPUTE] == full(OLD)
    converge(pinned, state="absent")
    assert COMPUTE not in pinned.installed()


@pytest.mark.parametrize("priority", long_but_first([1001, 990, 600]))
def test_exact_version_overrules_a_pin_and_names_its_file(pinned: Ubuntu, priority: int) -> None:
    pinned.put(PREFERENCES[1:], PIN.format(priority))
    warning = f"version {NEWER} overrules {PREFERENCES}, which pins "
    assert [text for text in planned(pinned, version=NEWER).warnings if warning in text]
    assert converge(pinned, version=NEWER).steps == ()
    assert pinned.installed()[COMPUTE] == full(NEWER)
    assert planned(pinned, check_mode=False, version=NEWER).steps == ()
    assert converge(pinned, version=OLD).steps == ()
    assert not [text for text in planned(pinned, version=OLD).warnings if PREFERENCES in text]


def test_pin_that_is_taken_away_bounds_no_more(pinned: Ubuntu) -> None:
    converge(pinned, version="580")
    pinned.remove(PREFERENCES)
    assert reported(pinned, version="580")["newer_version"] == NEWER
    assert converge(pinned, version="580", update=True).steps == ()
    assert pinned.installed()[COMPUTE] == full(NEWER)


def test_pin_of_one_part_bounds_all(ubuntu: Machines) -> None:
    node = ubuntu(BOTH, K85)
    node.enable()
    node.put(PREFERENCES[1:], PIN.format(1001).replace("*nvidia*580*", COMPUTE))
    assert converge(node, version="580").steps == ()
    assert node.installed()[COMPUTE] == full(OLD)
