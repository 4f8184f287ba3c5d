# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU that was reset is given back, and where nothing shows the reset an operator says so."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from nvsim.testing import client

if TYPE_CHECKING:
    from conftest import MakeNode
    from running import Node

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually
GPU = "nvidia.com/gpu"


def persistent(node: Node) -> None:
    """Let the GPUs stay initialised while nobody uses them, as nvidia-persistenced does."""
    client(
        node.sim,
        """
        n.nvmlInit()
        for index in range(n.nvmlDeviceGetCount()):
            n.nvmlDeviceSetPersistenceMode(n.nvmlDeviceGetHandleByIndex(index), 1)
        """,
    )


def started(make_node: MakeNode) -> Node:
    """A node on driver 550 that serves two GPUs, which have been on for some hours."""
    node = make_node(2, driver="550.163.01")
    for gpu in ("0", "1"):
        node.sim.ctl("energy", gpu=gpu, seconds=10000)
    node.start_kubelet()
    return node


def stopped(node: Node) -> None:
    node.signal(signal.SIGTERM)
    node.ended()


def test_m7_a_gpu_that_was_reset_while_the_plugin_was_stopped_comes_back(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    persistent(node)
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    eventually(lambda: node.status()["health"])
    stopped(node)
    node.start_daemon()
    node.wait(GPU, 1)  # a new process alone is no reset
    stopped(node)
    node.sim.ctl("reset", gpu="1")
    node.start_daemon()
    node.wait(GPU, 2)
    assert "the GPU was reset" in node.logged()
