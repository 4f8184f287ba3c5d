# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs shared by MPS on a node with systemd and NVIDIA's genuine control program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node, eventually

GPU = "nvidia.com/gpu"
pytestmark = pytest.mark.node


def sharing(first: int, second: int) -> dict[str, Any]:
    """Two GPUs in so many shares each."""
    entries = [
        {"name": GPU, "replicas": count, "devices": [gpu]}
        for gpu, count in enumerate((first, second))
    ]
    return {"mps": {"drain": 5, "resources": entries}}


def states(node: Node) -> dict[str, dict[str, Any]]:
    """Return what the managers tell, by device."""
    found = json.loads(node.run("/opt/gpu-node/bin/gpu-plugin", "mps", "status", "--json"))
    return {one["device"]: one for one in found}


def health(node: Node) -> list[str]:
    return [one["health"] for one in node.resources()["gpu"]["devices"].values()]


def wait(node: Node, count: int) -> None:
    node.run("standin-kubelet", "wait", f"{GPU}={count}", "--timeout", "60")


def modes(node: Node) -> list[str]:
    words = ("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader")
    return node.run(*words).split()


def test_sharing_is_one_variable(brought_up: Callable[..., Node]) -> None:
    node = brought_up("mps", "h100-80", 2)
    node.variables["device_plugin_sharing"] = sharing(4, 2)
    up = node.play()
    assert up.ok, up.message()
    wait(node, 6)
    assert modes(node) == ["Exclusive_Process"] * 2
    first, second = sorted(states(node), key=lambda one: states(node)[one]["replicas"])[::-1]
    again = node.play()
    assert again.ok, again.message()
    assert again.changed() == []

    pod = json.loads(node.run("standin-kubelet", "admit", "a", "--request", f"{GPU}=1", "--json"))
    text = json.dumps(pod)
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" in text
    assert (
        f"/run/gpu-node/mps/{first}/ipc/pipe" in text
        or f"/run/gpu-node/mps/{second}/ipc/pipe" in text
    )

    # A manager is killed: the kubelet hears of it, and systemd starts it again.
    since = node.run("date", "+%s").strip()
    told = ("journalctl", "-u", "gpu-device-plugin", "--since", f"@{since}", "-o", "cat")
    node.run("systemctl", "kill", "-s", "KILL", f"gpu-mps@{first}.service")
    eventually(lambda: "its MPS daemon's manager was killed" in node.run(*told))
    eventually(lambda: health(node), ["Healthy"] * 6)

    # The plugin starts anew, and they run on.
    before = states(node)
    node.run("systemctl", "restart", "gpu-device-plugin")
    eventually(lambda: health(node), ["Healthy"] * 6)
    assert {one: before[one]["pid"] for one in before} == {
        one: state["pid"] for one, state in states(node).items()
    }

    # Another number of shares concerns one of them.
    fewer = node.play(device_plugin_sharing=sharing(2, 2))
    assert fewer.ok, fewer.message()
    wait(node, 4)
    after = states(node)
    assert after[first]["pid"] != before[first]["pid"]
    assert after[first]["limits"]["default"]["threads"] == 50.0
    assert after[second]["pid"] == before[second]["pid"]

    # More than the architecture has is refused before the configuration is written.
    refused = node.play(device_plugin_sharing=sharing(50, 2))
    assert not refused.ok
    assert "MPS takes from 1 to 48 clients on its architecture" in refused.message()
    assert health(node) == ["Healthy"] * 4

    node.reboot()
    wait(node, 4)
    assert modes(node) == ["Exclusive_Process"] * 2

    down = node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False)
    assert down.ok, down.message()
    assert modes(node) == ["Default"] * 2
    units = node.run("systemctl", "list-units", "--all", "--no-legend", "gpu-mps@*")
    assert units.split() == []
    left = node.run("sh", "-c", "ls /etc/systemd/system/ /run/gpu-node/mps; mount")
    assert "gpu-mps" not in left
    assert ".env" not in left
    assert ".json" not in left
