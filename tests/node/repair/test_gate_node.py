# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A new node with a gate gives a GPU to its kubelet once that GPU has passed, and again after a boot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

GATED = {"gpu_nodes_gate": True, "accept_duration": 1}
LOOK = "Look at the node and plan what it needs"
GATE = "/var/lib/gpu-node/gate.json"

pytestmark = [pytest.mark.node, pytest.mark.long]


def gate(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat", GATE))
    return found


def shown(node: Node) -> str:
    return node.run("/opt/gpu-node/bin/gpu-plugin", "gate", check=False)


def test_new_node_is_held_until_its_gpus_have_passed(make_node: Callable[..., Node]) -> None:
    node = make_node("gate", "h100-80", 2, **GATED)
    cut_off = node.play(cut_off_at="Test the GPUs")
    assert cut_off.killed
    assert not gate(node)["open_gpus"]

    up = node.play()
    assert up.ok, up.message()
    assert "open" in shown(node)
    assert len(gate(node)["open_gpus"]) == 2
    eventually(lambda: node.allocatable().get("gpu"), 2)
    quiet = node.play()
    assert quiet.ok, quiet.message()
    assert (quiet.module_calls(), quiet.changed()) == ([LOOK], [])

    # A board is exchanged while the node is off.
    node.run("sh", "-c", f'sed -i \'s/"serial": "/&0/\' {GATE.replace("gate", "acceptance")}')
    node.reboot()
    eventually(lambda: "the serial number was" in shown(node))
    eventually(lambda: node.allocatable().get("gpu", 0), 0)
    failed = node.play("gpu.node.validate", **GATED)
    assert "the gate holds GPUs back" in failed.message()
    again = node.play()
    assert again.ok, again.message()
    eventually(lambda: node.allocatable().get("gpu"), 2)

    gone = node.play("gpu.node.teardown", **GATED)
    assert gone.ok, gone.message()
    assert "gone" in node.run("sh", "-c", f"test -e {GATE} || echo gone")
