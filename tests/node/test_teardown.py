# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A torn-down node is what it was: nothing of ours is left, and nothing of the user's is missing or altered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool import nodes
from gpunode_tool.testing import Node

from tests.node.holding import hold
from tests.node.runtime import containers
from tests.node.whole_node import differences, left, picture

PLAYBOOK = "gpu.node.teardown"
OWN_CDI = '{"cdiVersion": "0.6.0", "kind": "example.com/card", "devices": []}\n'
OWN_SETTINGS = """\
# Ours, written by hand.
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.example.com/pause:3.10"  # a mirror
"""
OWN_SOURCE = "# A mirror of ours.\n# deb http://mirror.example.com/debian trixie main\n"
BOTH = {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}
# Other programs' folders: a bring-up makes them where they are not, and a teardown does not ask who looks into them.
FOLDERS = ("/etc/cdi", "/etc/containerd", "/etc/kubernetes/node-feature-discovery/features.d")
# The tasks at whose beginning a run is killed.
KILLED_AT = (
    "Mark the change as begun",
    "Remove the CDI specification",
    "Restart the container runtime",
    "Remove the NVIDIA driver",
    "Remove empty folders",
)

pytestmark = pytest.mark.node


def own_things(node: Node) -> None:
    """Give a node what its user has made."""
    node.run("mkdir", "--parents", "--mode=0750", "/etc/cdi", "/etc/modprobe.d")
    containers.write(node, "/etc/apt/sources.list.d/own.list", OWN_SOURCE)
    containers.write(node, "/etc/cdi/own.json", OWN_CDI)
    containers.write(node, "/etc/modprobe.d/own.conf", "options loop max_loop=8\n")


def own_containerd(node: Node) -> None:
    """Give a node settings of containerd that its user has written."""
    node.run("mkdir", "--parents", "--mode=0750", "/etc/containerd")
    containers.write(node, "/etc/containerd/config.toml", OWN_SETTINGS)
    node.run("systemctl", "restart", "containerd")


def up_to_date(node: Node) -> Node:
    """Return a node with the versions that the archive has now: what is installed on it may bring newer libraries."""
    quiet = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes")
    for words in (["update"], ["upgrade"]):
        node.run(*quiet, *words)
    return node


def layout(node: Node) -> list[str]:
    """Return the MIG modes and instances of all GPUs, without the numbers that the driver gives them."""
    modes = node.run("nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader")
    lines = node.run("nvidia-smi", "mig", "-lgi", check=False).splitlines()
    found = [line.split() for line in lines if "MIG" in line]
    return sorted([*modes.splitlines(), *(f"GPU {one[1]} {one[3]} at {one[-2]}" for one in found)])


def test_a_node_in_service_is_torn_down_to_what_it_was_and_not_under_a_job(
    make_node: Callable[..., Node], brought_up: Callable[..., Node]
) -> None:
    bare = up_to_date(make_node("teardown", "a100-40", 2))
    bare.run("mkdir", "--parents", *FOLDERS)
    own_things(bare)
    before = picture(bare)
    nodes.down(bare.name)
    node = up_to_date(brought_up("teardown", "a100-40", 2, **containers.KIND_OF_NODE))
    own_things(node)
    in_use, cut = picture(node), layout(node)
    hold(node, "job", 1)
    refused = node.play(PLAYBOOK)
    node.run("systemctl", "stop", "job")
    assert not refused.ok
    said = "teardown: it-teardown: nothing was touched: GPUs are in use: process"
    assert said in refused.message()
    assert [one for one in refused.changed() if not one.endswith("planned only")] == []
    assert differences(in_use, picture(node)) == []
    assert layout(node) == cut

    down = node.play(PLAYBOOK)
    assert down.ok, down.message()
    assert left(before, picture(node)) == []


@pytest.mark.long
def test_what_a_user_has_made_comes_back_step_by_step(make_node: Callable[..., Node]) -> None:
    """A MIG layout and settings of containerd that stood before, and a teardown that leaves the driver first."""
    node = up_to_date(make_node("torn-back", "a100-40", 2))
    own_things(node)
    own_containerd(node)
    before = picture(node)
    up = node.play()
    assert up.ok, up.message()
    node.run("nvidia-smi", "-i", "1", "-mig", "1")
    node.run("nvidia-smi", "mig", "-i", "1", "-cgi", "19:6,14:2", "-C")
    own = layout(node)
    cut = node.play("gpu.node.mig", mig_config={"version": "v1", "mig-configs": {"cut": [BOTH]}})
    assert cut.ok, cut.message()
    ours = layout(node)
    assert ours != own

    checked = node.play(PLAYBOOK, cmdline="--check")
    assert checked.ok, checked.message()
    assert layout(node) == ours
    kept = node.play(PLAYBOOK, gpu_nodes_teardown_driver=False)
    assert kept.ok, kept.message()
    assert layout(node) == own
    down = node.play(PLAYBOOK)
    assert down.ok, down.message()
    assert left(before, picture(node)) == []
    again = node.play(PLAYBOOK)
    assert again.ok, again.message()
    assert again.changed() == []


@pytest.mark.long
def test_interrupted_teardown_is_finished_by_the_next(
    make_node: Callable[..., Node],
) -> None:
    node = up_to_date(make_node("torn", "a100-40", 2, mig_config=containers.MIG))
    containers.install(node, "python3-venv")
    own_things(node)
    own_containerd(node)
    before = picture(node)
    up = node.play()
    assert up.ok, up.message()
    for task in KILLED_AT:
        assert node.play(PLAYBOOK, cut_off_at=task).killed, task
    down = node.play(PLAYBOOK)
    assert down.ok, down.message()
    assert left(before, picture(node)) == []
    back = node.play()
    assert back.ok, back.message()
