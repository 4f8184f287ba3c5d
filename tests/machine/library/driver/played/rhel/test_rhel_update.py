# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Point releases of a branch, with genuine dnf 4 and dnf 5: what is there moves where that is asked for."""

from __future__ import annotations

import pytest

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import KMODS, OLDER, USER_SPACE, VERSION, driver
from tests.fakes.played.rhel.rhel_systems import EL9, EL10, FEDORA, System

pytestmark = [pytest.mark.long]
PARTS = {*USER_SPACE, KMODS["open"]}


def moves(node: Rhel) -> None:
    """Have the branch move, and see that it does so at once and only where that is asked for."""
    assert converge(node, version="580").steps == ()
    assert node.installed()["nvidia-driver-cuda"] == OLDER
    steps = [step.action for step in planned(node, version="580", update=True).steps]
    assert (steps.count("install"), "stream" in steps) == (1, False)
    left = converge(node, version="580", update=True)
    assert left.steps == ()
    assert f"{OLDER} of the driver is loaded" in left.reboot_required[0]
    there, held = node.installed(), node.held()
    assert {there[name] for name in PARTS} == {VERSION}
    assert held >= PARTS - {"nvidia-kmod-common", "nvidia-driver-cuda-libs"}
    assert converge(node, version="580", update=True).steps == ()
    node.boot(node.system.kernel)
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)


@pytest.mark.parametrize("system", [EL9, FEDORA], ids=["dnf4", "dnf5"])
def test_branch_moves_within_its_stream_past_its_locks(rhel: Machines, system: System) -> None:
    node = rhel.driven(system, version=OLDER)
    assert reported(node, version="580")["newer_version"] == VERSION
    moves(node)


@pytest.mark.parametrize("system", [EL10, FEDORA], ids=["dnf4", "dnf5"])
def test_branch_moves_by_metadata_that_was_old(rhel: Machines, system: System) -> None:
    node = rhel(system)
    node.offer("cuda", driver(system, OLDER))
    assert converge(node, version="580").steps == ()
    node.offer("cuda", (*driver(system, OLDER), *driver(system, VERSION)))
    moves(node)
