# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Point releases of a branch, with genuine dnf 4 and dnf 5: what is there moves where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.packages.driver_runs import capability, converge, reported
from tests.fakes.played.rhel.played_rhel import Rhel
from tests.fakes.played.rhel.rhel_archive import KMODS, OLDER, USER_SPACE, VERSION, driver, index
from tests.fakes.played.rhel.rhel_systems import EL9, EL10, FEDORA, System

pytestmark = [pytest.mark.long]
PARTS = {*USER_SPACE, KMODS["open"]}


def moves(node: Rhel) -> None:
    """Have the branch move, and see that it does so at once and only where that is asked for."""
    assert converge(node, version="580").steps == ()
    assert node.installed()["nvidia-driver-cuda"] == OLDER
    one = capability(node, version="580", update=True, check_mode=True)
    steps = [step.action for step in one.plan(one.observe()).steps]
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
def test_branch_moves_within_its_stream_past_its_locks(
    rhel: Callable[..., Rhel], system: System
) -> None:
    node = rhel(system)
    if system.epel:
        node.switch("epel", on=True)
    assert converge(node, version=OLDER).steps == ()
    assert reported(node, version="580")["newer_version"] == VERSION
    moves(node)


@pytest.mark.parametrize("system", [EL10, FEDORA], ids=["dnf4", "dnf5"])
def test_branch_moves_by_metadata_that_was_old(
    rhel: Callable[..., Rhel], tmp_path: Path, system: System
) -> None:
    node = rhel(system)
    cuda = tmp_path / "cuda"
    driver(cuda, system, OLDER)
    index(cuda)
    node.repositories = {**node.repositories, "cuda": cuda}
    for name in ("cuda", *(["epel"] if system.epel else [])):
        node.switch(name, on=True)
    assert converge(node, version="580").steps == ()
    driver(cuda, system, VERSION)
    index(cuda)
    moves(node)
