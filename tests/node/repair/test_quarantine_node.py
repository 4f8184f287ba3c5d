# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU that is set aside stays so over a reboot, another start of the device plugin, another run and a teardown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

GPU = "gpu"  # as nodes name nvidia.com/gpu
PATH = "/var/lib/gpu-node/quarantine.json"
ASIDE: dict[str, Any] = {"quarantine_reason": "XID 79 twice", "quarantine_ticket": "OPS-1"}

pytestmark = [pytest.mark.node, pytest.mark.long]


def kept(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat", PATH))
    return found


def test_a_gpu_that_is_set_aside_stays_so_until_it_is_released(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("quarantine", "h100-80", 2)
    process = node.status()["pid"]
    done = node.play("gpu.node.quarantine", quarantine_gpus=["1"], **ASIDE)
    assert done.ok, done.message()
    eventually(lambda: node.allocatable().get(GPU), 1)
    assert node.status()["pid"] == process
    ((uuid, entry),) = kept(node)["gpus"].items()
    assert (entry["reason"], entry["ticket"]) == ("XID 79 twice", "OPS-1")
    again = node.play("gpu.node.quarantine", quarantine_gpus=[uuid], **ASIDE)
    assert again.ok, again.message()
    assert again.changed() == []

    node.reboot()
    eventually(lambda: node.allocatable().get(GPU), 1)
    node.run("systemctl", "restart", "gpu-device-plugin.service")
    eventually(lambda: node.status()["state"], "serving")
    run = node.play()
    assert run.ok, run.message()
    assert run.changed() == []
    assert node.allocatable().get(GPU) == 1
    assert kept(node)["gpus"] == {uuid: entry}

    back = node.play("gpu.node.release", quarantine_gpus=[entry["serial"]])
    assert back.ok, back.message()
    eventually(lambda: node.allocatable().get(GPU), 2)
    assert node.run("sh", "-c", f"test -e {PATH} || echo gone").strip() == "gone"
    over = node.play("gpu.node.release", quarantine_gpus=[uuid])
    assert over.ok, over.message()
    assert over.changed() == []

    assert node.play("gpu.node.quarantine", quarantine_node=True, **ASIDE).ok
    down = node.play("gpu.node.teardown")
    assert down.ok, down.message()
    assert kept(node)["node"]["reason"] == "XID 79 twice"
    twice = node.play("gpu.node.teardown")
    assert twice.ok, twice.message()
    assert twice.changed() == []
    free = node.play("gpu.node.release", quarantine_node=True)
    assert free.ok, free.message()
