# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs shared by MPS on a node with systemd and NVIDIA's genuine control program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

GPU = "nvidia.com/gpu"
pytestmark = [pytest.mark.node, pytest.mark.long]


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


def daemons(told: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {device: one["daemon"] for device, one in told.items()}


def health(node: Node) -> list[str]:
    return [one["health"] for one in node.resources()["gpu"]["devices"].values()]


def wait(node: Node, count: int) -> None:
    node.run("standin-kubelet", "wait", f"{GPU}={count}", "--timeout", "600")


def modes(node: Node) -> list[str]:
    words = ("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader")
    return node.run(*words).split()


def test_mps_is_chosen_by_one_variable_and_its_daemons_outlive_their_manager(
    brought_up: Callable[..., Node],
) -> None:
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

    # The manager is killed, restarted or stopped: systemd starts it again, or the plugin does, and
    # neither the daemons nor the kubelet know of it.
    before = states(node)
    assert len({state["pid"] for state in before.values()}) == 1
    since = node.run("date", "+%s").strip()
    for way in ("killed", "restart", "stop"):
        manager = {state["pid"] for state in states(node).values()}
        if way == "killed":
            node.run("kill", "-KILL", *map(str, manager))
        else:
            node.run("systemctl", way, "gpu-mps.service")
        eventually(
            lambda manager=manager: (
                {state["state"] for state in states(node).values()} == {"ready"}
                and manager.isdisjoint(state["pid"] for state in states(node).values())
            )
        )
        after = states(node)
        assert daemons(after) == daemons(before), way
        assert health(node) == ["Healthy"] * 6
    told = node.run("journalctl", "-u", "gpu-device-plugin", "--since", f"@{since}", "-o", "cat")
    assert "device is unhealthy" not in told

    # The plugin starts anew, and they run on.
    node.run("systemctl", "restart", "gpu-device-plugin")
    eventually(lambda: health(node), ["Healthy"] * 6)
    assert daemons(states(node)) == daemons(before)
    # A simulated node may not lower the score of a process: what is asked for is seen.
    asked = ("systemctl", "show", "gpu-mps", "--property=OOMScoreAdjust", "--value")
    assert node.run(*asked).strip() == "-998"

    # Somebody changes a compute mode while no manager runs.
    node.run("systemctl", "stop", "gpu-device-plugin", "gpu-mps")
    node.run("nvidia-smi", "-c", "0")
    assert modes(node) == ["Default"] * 2
    node.run("systemctl", "start", "gpu-device-plugin")
    eventually(lambda: modes(node), ["Exclusive_Process"] * 2)
    eventually(lambda: health(node), ["Healthy"] * 6)
    assert daemons(states(node)) == daemons(before)

    # Another number of shares concerns one of them.
    fewer = node.play(device_plugin_sharing=sharing(2, 2))
    assert fewer.ok, fewer.message()
    wait(node, 4)
    after = states(node)
    assert after[first]["daemon"] != before[first]["daemon"]
    assert after[first]["limits"]["default"]["threads"] == 50.0
    assert after[second]["daemon"] == before[second]["daemon"]

    # More than the architecture has is refused before the configuration is written.
    refused = node.play(device_plugin_sharing=sharing(50, 2))
    assert not refused.ok
    assert "MPS takes from 1 to 48 clients on its architecture" in refused.message()
    assert health(node) == ["Healthy"] * 4

    node.reboot()
    wait(node, 4)
    assert modes(node) == ["Exclusive_Process"] * 2

    kept = node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False)
    assert not kept.ok
    assert "pod default/a (container main) with nvidia.com/gpu" in kept.message()
    node.run("standin-kubelet", "release", "a")
    down = node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False)
    assert down.ok, down.message()
    assert modes(node) == ["Default"] * 2
    units = node.run("systemctl", "list-units", "--all", "--no-legend", "gpu-mps*")
    assert units.split() == []
    left = node.run("sh", "-c", "ls /etc/systemd/system/ /run/gpu-node/mps; mount; ps ax")
    assert "gpu-mps" not in left
    assert "nvidia-cuda-mps-control" not in left
    assert ".env" not in left
    assert ".json" not in left
