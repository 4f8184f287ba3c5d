# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVSwitches on a played Ubuntu: the fabric manager is of the driver's version, and runs."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.services.driver import FABRIC_SERVICE

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.debs import Deb
from tests.fakes.played.rooted import B200
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEWER, OLD

FABRIC, SUBNET = "nvidia-fabricmanager-580", "nvlsm"
DEVICES = "sys/bus/pci/devices"
MARK = "\x82\x0bConnectX-7\x90SMDL=SW_MNG"


def fabric(version: str) -> Deb:
    """Return the fabric manager of a version; packages.ubuntu.com, source fabric-manager-580."""
    return Deb(FABRIC, f"{version}-1", source="fabric-manager-580")


def switched(node: Ubuntu) -> Ubuntu:
    """Give a machine with an H100 its NVSwitches."""
    for name, value in (("vendor", "0x10de"), ("device", "0x22a3"), ("class", "0x068000")):
        node.put(f"{DEVICES}/0000:05:00.0/{name}", f"{value}\n")
    return node


def test_driver_takes_the_version_that_the_fabric_manager_has_and_both_go(ubuntu: Machines) -> None:
    offered = (*archive.G2, *archive.driver(OLD), fabric("580.159.03"), fabric(OLD))
    node = switched(ubuntu(offered, K85))
    before = node.installed()
    left = converge(node)
    assert (left.steps, left.warnings, node.works()) == ((), (), True)
    there = node.installed()
    assert (there[FABRIC], there["nvidia-utils-580-server"]) == (f"{OLD}-1", archive.full(OLD))
    assert FABRIC in node.held()
    assert FABRIC_SERVICE in node.units()
    converge(node, state="absent")
    assert node.installed() == before


def test_fabric_manager_of_another_is_enabled_and_given_back(ubuntu: Machines) -> None:
    node = switched(ubuntu.driven((*archive.A, fabric(OLD)), K85))
    node.apt("install", FABRIC)
    converge(node)
    assert FABRIC_SERVICE in node.units()
    converge(node, state="absent")
    assert FABRIC_SERVICE not in node.units()
    assert [name for name in node.installed() if "nvidia" in name] == [FABRIC]


def test_fabric_manager_that_does_not_start_says_where_to_look(ubuntu: Machines) -> None:
    node = switched(ubuntu((*archive.A, fabric(OLD)), K85))
    node.broken = {FABRIC_SERVICE}
    with pytest.raises(NodeError, match=rf"journalctl -u {FABRIC_SERVICE}', it must be of exactly"):
        converge(node)


def test_node_without_switches_gets_no_fabric_manager(ubuntu: Machines) -> None:
    node = ubuntu.driven((*archive.A, fabric("580.82.07")), K85)
    assert FABRIC not in node.installed()
    assert node.works()


def test_branch_moves_with_modules_components_and_fabric_by_lists_that_were_old(
    ubuntu: Machines,
) -> None:
    node = switched(ubuntu((*archive.A, fabric(OLD)), K85))
    wanted = {"version": "580", "components": ["video"]}
    converge(node, **wanted)
    assert node.installed()[FABRIC] == f"{OLD}-1"
    node.archive((*archive.G2, fabric(NEWER)), lists=False)
    assert converge(node, **wanted).steps == ()
    actions = [step.action for step in planned(node, **wanted, update=True).steps]
    assert actions.count("install") == 1
    node.apt("update")
    assert reported(node, **wanted)["newer_version"] == NEWER
    assert converge(node, **wanted, update=True).steps == ()
    there = node.installed()
    assert {there[f"{one}-580-server"] for one in ("nvidia-utils", "libnvidia-encode")} == {
        archive.full(NEWER)
    }
    assert there[f"linux-modules-nvidia-580-server-open-{K85}"] == "6.8.0-85.85+3"
    assert there[FABRIC] == f"{NEWER}-1"
    assert converge(node, **wanted, update=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


@pytest.mark.parametrize("offered", [True, False])
def test_subnet_manager_comes_in_a_version_of_its_own_where_it_is_offered(
    ubuntu: Machines, offered: bool
) -> None:
    """Blackwell's switches are known by a ConnectX-7 that bridges to them."""
    more = (Deb(SUBNET, "2025.10.11-1"),) if offered else ()
    node = ubuntu((*archive.A, fabric(OLD), *more), K85, B200)
    for name, value in (("vendor", "0x15b3\n"), ("device", "0x1021\n"), ("vpd", MARK)):
        node.put(f"{DEVICES}/0000:e1:00.0/{name}", value)
    before = node.installed()
    left = converge(node)
    there = node.installed()
    assert there[FABRIC] == f"{OLD}-1"
    assert reported(node)["node"]["nvswitch"] is True
    if not offered:
        assert "have no nvlsm" in left.warnings[0]
        return
    assert (left.steps, left.warnings) == ((), ())
    assert there[SUBNET] == "2025.10.11-1"
    assert SUBNET in node.held()
    converge(node, state="absent")
    assert node.installed() == before
