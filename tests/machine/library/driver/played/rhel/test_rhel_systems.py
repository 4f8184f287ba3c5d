# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on each played system of the RHEL family: it comes, stays and goes."""

from __future__ import annotations

import pytest

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import BEFORE, VERSION
from tests.fakes.played.rhel.rhel_systems import AMAZON, EL8, EL9, EL10, FEDORA, ORACLE, System

OTHERS = (FEDORA, EL8, EL10, AMAZON, ORACLE)
SYSTEMS = (EL9, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS))


def named(system: System) -> str:
    return f"{system.ident}{system.version}"


@pytest.fixture
def node(request: pytest.FixtureRequest, rhel: Machines) -> Rhel:
    return rhel(request.param)


def headers(system: System) -> list[str]:
    """Return the packages that must be there before the kernel modules are built."""
    found = [f"{system.devel}-{system.kernel}"]
    return [*found, f"{system.devel}-matched-{system.kernel}"] if system.matched else found


@pytest.mark.parametrize("node", SYSTEMS, ids=named, indirect=True)
def test_driver_comes_with_the_headers_of_the_running_kernel_and_goes(node: Rhel) -> None:
    found = planned(node, version="570")
    first, second = (step for step in found.steps if step.action == "install")
    assert [*first.params["packages"]] == headers(node.system)
    assert second.params["packages"]["kmod-nvidia-open-dkms"].startswith(f"3:{BEFORE}-")
    left = converge(node, version="570")
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{BEFORE} open", True)
    assert node.held() == {"kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced"}
    node.ran.clear()
    assert planned(node, check_mode=False, version="570").steps == ()
    assert not [words for words in node.ran if {"shell", "do", "module", "makecache"} & {*words}]
    converge(node, state="absent")
    assert ([*node.installed()], node.held()) == ([node.system.core], set())
    assert node.listdir("/lib/modules") == [node.system.kernel]


@pytest.mark.long
@pytest.mark.parametrize("node", [FEDORA, EL10], ids=named, indirect=True)
def test_another_branch_comes_where_there_are_no_streams(node: Rhel) -> None:
    converge(node, version="570")
    left = converge(node, version="580", reload="when_idle")
    assert left.steps == ()
    assert node.installed()["nvidia-driver-cuda"] == VERSION
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)
