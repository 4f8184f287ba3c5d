# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs of a node go from the device plugin to DRA and back, and nothing is left of either."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.whole_node import left, picture

UNIT = "gpu-dra.service"
PLUGIN = "gpu-device-plugin.service"
STATUS = "/run/gpu-node/dra.json"

pytestmark = [pytest.mark.node, pytest.mark.long]


def state(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat", STATUS))
    return found


def resources(node: Node) -> dict[str, int]:
    told = json.loads(node.run("/opt/gpu-node/bin/gpu-plugin", "status", "--json", check=False))
    return {name: len(one["devices"]) for name, one in told["resources"].items()}


def test_a_node_goes_over_to_dra_and_back(make_node: Callable[..., Node]) -> None:
    node = make_node("allocation", "a100-40", 2)
    # The stand-in kubelet of nodes knows no DRA. Without one, GPUs are offered once one comes.
    node.run("systemctl", "disable", "--now", "kubelet.service")
    node.run("rm", "-rf", "/var/lib/kubelet")
    node.run("mkdir", "--parents", "/etc/cdi")
    before = picture(node)
    up = node.play(gpu_nodes_allocation="dra")
    assert up.ok, up.message()
    assert node.run("systemctl", "is-active", UNIT, PLUGIN).split() == ["active"] * 2
    assert state(node)["state"] == "serving"
    assert len(state(node)["gpus"]) == 2
    assert resources(node) == {}
    wrong = node.play("gpu.node.validate", gpu_nodes_allocation="device_plugin")
    assert not wrong.ok
    assert "gpu_nodes_allocation is device_plugin, and the node has dra" in wrong.message()
    again = node.play(gpu_nodes_allocation="dra")
    assert again.ok, again.message()
    assert again.changed() == []

    both = {"gpu_nodes_allocation": "both", "gpu_nodes_dra_devices": ["1"]}
    shown = node.play(cmdline="--check --diff", **both)
    assert shown.ok, shown.message()
    assert shown.plan()["device_plugin"]["steps"]
    assert len(state(node)["gpus"]) == 2
    mixed = node.play(**both)
    assert mixed.ok, mixed.message()
    assert [one["index"] for one in state(node)["gpus"].values()] == [1]
    assert resources(node) == {"nvidia.com/gpu": 1}

    back = node.play()
    assert back.ok, back.message()
    assert resources(node) == {"nvidia.com/gpu": 2}
    there = node.run("find", "/etc/systemd", "/run/cdi", "/var/lib", "/run/gpu-node", check=False)
    assert not [one for one in there.splitlines() if "dra" in one.rpartition("/")[2]]
    over = node.play(gpu_nodes_allocation="dra")
    assert over.ok, over.message()
    down = node.play("gpu.node.teardown")
    assert down.ok, down.message()
    assert left(before, picture(node)) == []
