# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM and its service, through the genuine apt in a folder."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    OLD_LISTS,
    InputError,
    NodeError,
)
from ansible_collections.gpu.node.plugins.module_utils._base.services.dcgm import RECORD

from tests.fakes.library.dcgm_nodes import CORE, DCGM, NEW, OLD, DcgmNode, capability, converge

Make = Callable[..., DcgmNode]
UNIT = "nvidia-dcgm.service"


def test_dcgm_comes_with_its_service_and_goes(make: Make) -> None:
    node = make()
    before = node.installed()
    assert converge(node).steps == ()
    names = ("core", "cuda13", "proprietary", "proprietary-cuda13")
    dcgm = {f"{DCGM}-{one}" for one in names}
    assert node.installed() == {**dict.fromkeys(dcgm, f"1:{OLD}-1"), "lshw": "02.19.2-1"}
    assert (set(node.units), node.boot) == ({UNIT}, {UNIT})
    held = node._genuine(("apt-mark", "showhold")).out.split()
    assert set(held) == dcgm
    ran = len(node.ran)
    assert converge(node).steps == ()
    assert not [
        one for one in node.ran[ran:] if one[:2] in (("apt-get", "-y"), ("systemctl", "restart"))
    ]
    assert converge(node, state="absent").steps == ()
    assert (node.installed(), node.units, node.boot) == (before, {}, set())
    assert RECORD not in node.files
    assert converge(node, state="absent").steps == ()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"cuda": "none"}, {"core", "proprietary"}),
        ({"cuda": "12", "proprietary": False}, {"core", "cuda12"}),
    ],
)
def test_parts_can_be_chosen(make: Make, options: dict[str, str], parts: set[str]) -> None:
    node = make()
    converge(node, **options)
    assert {name for name in node.installed() if name != "lshw"} == {
        f"{DCGM}-{one}" for one in parts
    }


def test_diagnostics_follow_the_driver_to_another_cuda(make: Make) -> None:
    node = make("old", "570.195.03")
    converge(node)
    assert f"{DCGM}-cuda12" in node.installed()
    node.files["/proc/driver/nvidia/version"] = node.files["/proc/driver/nvidia/version"].replace(
        "570.195.03", "580.95.05"
    )
    restarted = node.ran.count(("systemctl", "restart", UNIT))
    assert converge(node).steps == ()
    there = node.installed()
    assert f"{DCGM}-cuda13" in there
    assert not [name for name in there if name.endswith("cuda12")]
    assert node.ran.count(("systemctl", "restart", UNIT)) == restarted + 1


def test_version_that_is_there_stays_and_another_can_be_asked_for(make: Make) -> None:
    node = make("new")
    converge(node, version=OLD)
    assert converge(node).steps == ()
    assert node.installed()[CORE] == f"1:{OLD}-1"
    converge(node, version=NEW)
    assert node.installed()[CORE] == f"1:{NEW}-1"
    with pytest.raises(InputError, match=rf"version: '4.4.0'.*{NEW}.*{OLD}") as caught:
        converge(node, version="4.4.0")
    assert caught.value.until == ""
    with pytest.raises(InputError, match=rf"version: '4.4.0'.*{NEW}.*{OLD}") as caught:
        capability(node, check_mode=True, version="4.4.0").plan(capability(node).observe())
    assert caught.value.until == OLD_LISTS  # a run fetches them first


@pytest.mark.parametrize("check_mode", [True, False])
def test_dcgm_that_no_source_has_names_the_repository_to_add(make: Make, check_mode: bool) -> None:
    node = make("none")
    one = capability(node, check_mode=check_mode)
    if check_mode:
        found = one.plan(one.observe())
        assert [step.action for step in found.steps] == ["refresh", "install", "enable"]
        return
    with pytest.raises(NodeError, match=r"do not have .*-core") as caught:
        converge(node)
    assert "nvidia_driver_repository" in caught.value.hint
    assert node.installed() == {}


def test_dcgm_3_of_somebody_else_is_not_taken_away(make: Make) -> None:
    node = make()
    node.person("apt-get", "-y", "install", "datacenter-gpu-manager")
    with pytest.raises(
        NodeError, match=r"would remove datacenter-gpu-manager; nothing was changed"
    ):
        capability(node).plan(capability(node).observe())
    assert [*node.installed()] == ["datacenter-gpu-manager"]


def test_what_was_there_before_stays(make: Make) -> None:
    node = make()
    node.person("apt-get", "-y", "install", CORE)
    node._systemctl(("systemctl", "enable", UNIT))
    node._systemctl(("systemctl", "start", UNIT))
    converge(node, cuda="none", proprietary=False, hold=False)
    assert converge(node, state="absent").steps == ()
    assert CORE in node.installed()
    assert (set(node.units), node.boot) == ({UNIT}, {UNIT})


def test_service_that_was_stopped_is_started_again(make: Make) -> None:
    node = make()
    converge(node)
    node.units.clear()
    assert [one.action for one in capability(node).plan(capability(node).observe()).steps] == [
        "start"
    ]
    assert converge(node).steps == ()
    assert set(node.units) == {UNIT}


def test_system_that_is_not_known_is_refused(make: Make) -> None:
    node = make()
    node.files["/etc/os-release"] = "ID=plan9\n"
    with pytest.raises(NodeError, match="can't be installed on this system"):
        capability(node).observe()
