# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose own Python is too old, by genuine dnf and zypper in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.release import (
    complete,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.agent_host import parameters
from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.rpm_nodes import BASE, SYSTEMS, RpmNode, _build, _indexed, missing

FOCAL = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="20.04"\nPRETTY_NAME="Ubuntu 20.04.6 LTS"\n'
# docs.redhat.com, Red Hat Enterprise Linux 9, Installing and using dynamic programming languages, table 1.1.
OFFERED = {"dnf": ("python3.11", "python3.12"), "zypper": ("python311",)}
NEWEST = {"dnf": "python3.12", "zypper": "python311"}
Make = Callable[..., RpmNode]


def old(node: FakeHost, version: str = "3.9.18") -> FakeHost:
    """Let the node have that Python as its own, besides those that it installs."""

    def python(words: tuple[str, ...]) -> Completed:
        if "platform" in words[-1]:
            return Completed(0, f"{version}\n", "")
        return Completed(int(words[0] == "python3"), "", "")

    node.commands["python3",] = python
    return node


@pytest.fixture(params=["dnf", "zypper"])
def manager(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if lacking := missing(name):
        pytest.skip(lacking)
    return name


@pytest.fixture
def make(tmp_path: Path, manager: str) -> Make:
    """Return a maker of nodes whose repositories offer these packages."""

    def node(*offered: str) -> RpmNode:
        _build(tmp_path / "repo", dict.fromkeys((BASE, *offered), ""), "1.0", "1", 0)
        found = RpmNode(tmp_path / "node", _indexed(tmp_path / "repo"), SYSTEMS[manager])
        found._genuine(
            {"dnf": ("dnf", "makecache"), "zypper": ("zypper", "-n", "refresh")}[manager]
        )
        old(found)
        return found

    return node


def plan(node: FakeHost, *, check_mode: bool = False, **options: object) -> Plan:
    params = {**parameters("r1", 0), "state": "installed", **options}
    one = DevicePluginCapability(node, params, check_mode=check_mode)
    return one.plan(one.observe())


@pytest.mark.parametrize("check_mode", [True, False])
def test_python_that_is_too_old_is_named_with_what_would_be_installed(
    make: Make, manager: str, *, check_mode: bool
) -> None:
    node = make(*OFFERED[manager])
    with pytest.raises(NodeError) as caught:
        plan(node, check_mode=check_mode)
    assert str(caught.value) == (
        "no Python from 3.10 to 3.14 on the node: python3 is 3.9.18. Next step: set install_python"
        f" (device_plugin_install_python) to true, which installs {NEWEST[manager]},"
        " or name one in python (device_plugin_python)"
    )
    assert node.installed() == {}


def test_newest_python_that_is_offered_comes_before_the_environment(
    make: Make, manager: str
) -> None:
    node = make(*OFFERED[manager])
    shown = plan(node, check_mode=True, install_python=True)
    assert [step.action for step in shown.steps] == ["python", "release"]
    assert shown.steps[0].summary == f"install the package {NEWEST[manager]}"
    params = {**parameters("r1", 0), "state": "installed", "install_python": True}
    one = DevicePluginCapability(node, params, check_mode=False)
    one.apply(one.plan(one.observe()).steps[0])
    assert node.installed() == {NEWEST[manager]: "1.0"}
    node.commands[NEWEST["dnf"] if manager == "dnf" else "python3.11",] = ""
    assert [step.action for step in one.plan(one.observe()).steps] == ["release"]


def test_repository_that_has_none_is_named(make: Make, manager: str) -> None:
    node = make()
    place = {"dnf": "AppStream", "zypper": "module Python 3"}[manager]
    with pytest.raises(NodeError, match=rf"{place}.*device_plugin_python"):
        plan(node, install_python=True)


def test_python_that_is_named_and_missing_can_be_installed_if_it_is_offered(
    make: Make, manager: str
) -> None:
    node = make(*OFFERED[manager])
    with pytest.raises(NodeError, match=r"python: '/usr/bin/python3.11' is not valid: expected a"):
        plan(node, python="/usr/bin/python3.11")
    named = plan(node, python="/usr/bin/python3.11", install_python=True)
    assert named.steps[0].params["package"] == OFFERED[manager][0]
    with pytest.raises(NodeError, match=r"python: '/opt/own/python' is not valid"):
        plan(node, python="/opt/own/python", install_python=True)


def test_system_without_another_python_is_refused_by_its_name() -> None:
    # apt's archive of focal has python3.8 and, in universe, python3.9: launchpad.net/ubuntu/focal/+source/python3.9.
    node = old(FakeHost({"/etc/os-release": FOCAL}), "3.8.10")
    with pytest.raises(NodeError) as caught:
        plan(node, install_python=True)
    assert str(caught.value) == (
        "no Python from 3.10 to 3.14 on the node: python3 is 3.8.10. Next step: upgrade Ubuntu 20.04.6 LTS,"
        " which has no other in its archive, or install one yourself and name one in python (device_plugin_python)"
    )


def test_node_whose_release_is_there_needs_no_python() -> None:
    node = old(FakeHost({"/etc/os-release": FOCAL}))
    complete(node, "/opt/gpu-node/releases/r1")
    node.links |= {"/opt/gpu-node/current": "releases/r1", "/opt/gpu-node/bin": "current/bin"}
    node.links["/usr/local/bin/gpu-plugin"] = "/opt/gpu-node/bin/gpu-plugin"
    assert plan(node).steps == ()
