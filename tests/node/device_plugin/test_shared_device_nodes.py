# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Device nodes that all GPUs share come back by themselves on a node in service, also with the right number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import KIND_OF_NODE
from tests.support.waiting import eventually

SPEC = "/etc/cdi/nvidia.yaml"
NODES = "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools"
pytestmark = [pytest.mark.node, pytest.mark.long]


def numbers(node: Node) -> str:
    return node.run("sh", "-c", f"stat -c '%n %t:%T' {NODES} 2>/dev/null || true")


def test_shared_device_nodes_come_back_and_the_specification_never_loses_them(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("device-nodes", "a100-40", 2, **KIND_OF_NODE)
    before, specification = numbers(node), node.run("cat", SPEC)
    assert before.count(":") == 3
    for fault in (
        "rm -f /dev/nvidia-uvm /dev/nvidia-uvm-tools",
        "rm -f /dev/nvidiactl",
        "rm -f /dev/nvidia-uvm && mknod -m 666 /dev/nvidia-uvm c 499 0 && systemctl start gpu-cdi",
    ):
        node.run("sh", "-c", fault)
        eventually(lambda: numbers(node), before)
        assert node.run("cat", SPEC) == specification, fault
    log = node.run("journalctl", "-u", "gpu-cdi", "--no-pager")
    assert "device nodes are missing or have a wrong number" in log
