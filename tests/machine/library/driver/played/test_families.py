# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node of one family runs no function of another's file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import apt_machine
from tests.fakes.played.debian import debian_archive
from tests.fakes.played.rhel import played_rhel
from tests.fakes.played.suse import played_suse, suse_archive
from tests.fakes.played.ubuntu import played_ubuntu, ubuntu_archive

TRIXIE = debian_archive.KERNELS["trixie"]
# What of the driver is one family's alone, though it does I/O.
EDGES = {"_driver/machine/streams.py": "rhel"}


def debian(place: Path) -> Any:
    packages = debian_archive.archive(TRIXIE, "550.163.01")
    return debian_archive.Machines(place, "trixie")(packages, TRIXIE)


def ubuntu(place: Path) -> Any:
    machines = played_ubuntu.Machines(played_ubuntu.Ubuntu, place, "noble")
    return machines(ubuntu_archive.A, ubuntu_archive.K85)


def rhel(place: Path) -> Any:
    return played_rhel.Machines(place)()


def suse(place: Path) -> Any:
    return played_suse.Machines(place)(suse_archive.fresh())


def family(path: str) -> str:
    """Return the family whose file it is, empty where it is none's."""
    edge = next((EDGES[one] for one in EDGES if path.endswith(one)), "")
    return edge or path.partition("/_driver/families/")[2].removesuffix(".py").partition("/")[0]


@pytest.mark.parametrize(
    ("make", "tools"),
    [
        (debian, apt_machine.TOOLS),
        (ubuntu, apt_machine.TOOLS),
        (rhel, played_rhel.TOOLS),
        (suse, played_suse.TOOLS),
    ],
)
def test_only_its_own_familys_files_are_run_on_a_node(
    place: Path, make: Callable[[Path], Any], tools: tuple[str, ...]
) -> None:
    if lacking := missing(tools):
        pytest.skip(lacking)
    node, paths = make(place), set()

    def called(frame: FrameType, event: str, _value: object) -> None:
        if event == "call":
            paths.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        converge(node)
        converge(node, state="absent")
    finally:
        sys.setprofile(before)
    assert {*map(family, paths)} - {""} == {make.__name__}
