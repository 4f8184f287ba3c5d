# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU that was reset is given back, and where nothing shows the reset an operator says so."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from nvsim.testing import client

from tests.fakes.daemon.running import GPU
from tests.support.waiting import LIMIT, eventually

if TYPE_CHECKING:
    import subprocess

    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

UNSEEN = "a reset of the GPU and then `gpu-plugin health clear"


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
    """A node of two GPUs, which have been on for some hours, and a kubelet."""
    node = make_node(2)
    for gpu in ("0", "1"):
        node.sim.ctl("energy", gpu=gpu, seconds=10000)
    node.start_kubelet()
    return node


def stopped(node: Node) -> None:
    node.signal(signal.SIGTERM)
    node.ended()


def test_a_gpu_that_was_reset_while_the_plugin_was_stopped_comes_back(
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


def test_a_gpu_that_was_taken_from_the_driver_and_given_back_comes_back(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    gpus = node.sim.root / "proc/driver/nvidia/gpus"
    address = node.sim.ctl("status")["gpus"][1]["pci"]
    shutil.copytree(gpus / address, node.folder / "again")
    (gpus / address).rename(node.folder / "gone")
    (node.folder / "again").rename(gpus / address)
    node.wait(GPU, 2)
    assert "it was taken off the bus or from the driver, and given back" in node.logged()


def test_a_gpu_that_is_lost_from_the_start_is_told_of(make_node: MakeNode) -> None:
    node = started(make_node)
    node.sim.ctl("lose", gpu="1")
    node.start_daemon()
    node.wait(GPU, 1)
    (why,) = eventually(lambda: node.status().get("unreadable"))
    assert "reading GPU 1: the GPU has fallen off the bus" in why
    assert f"another GPU can't be used: {why}" in health(node).stdout
    assert json.loads(health(node, "--json").stdout)["unreadable"] == [why]
    node.sim.ctl("restore", gpu="1")
    node.wait(GPU, 2)
    eventually(lambda: node.status()["unreadable"] == [])


def health(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    flags = ("--status-file", str(node.status_file))
    return node.cli("health", *flags, *words)


def clear(node: Node, gpu: str, seconds: float = LIMIT) -> subprocess.CompletedProcess[str]:
    return health(node, "clear", gpu, "--timeout", str(seconds))


def sick(node: Node) -> None:
    """Let GPU 1 have a fault, the end of which nothing shows."""
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    eventually(lambda: node.status()["health"])


def test_where_nothing_shows_a_reset_an_operator_clears_the_gpu(make_node: MakeNode) -> None:
    node = started(make_node)
    sick(node)
    stopped(node)
    node.sim.ctl("reset", gpu="1")
    node.start_daemon()
    node.wait(GPU, 1)
    (problem,) = eventually(lambda: node.problems(GPU)).values()
    assert UNSEEN in problem
    lines = health(node).stdout.splitlines()
    assert lines[0].split() == ["GPU", "UUID", "MIG", "INSTANCE", "STATE", "SINCE"]
    assert lines[1].split() == ["0", node.uuids()[0], "-", "Healthy", "-"]
    assert lines[2].split()[:4] == ["1", node.uuids()[1], "-", "Unhealthy"]
    assert lines[3].strip() == "XID 48 (a memory error that could not be corrected)"
    assert lines[4].strip() == "verdict: reset"
    assert UNSEEN in lines[5]
    done = clear(node, "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"GPU 1 ({node.uuids()[1]}): cleared: XID 48 (a memory error that could not be corrected)\n"
    )
    node.wait(GPU, 2)
    assert f"faults are cleared at an operator's request gpu={node.uuids()[1]}" in node.logged()
    node.kill()  # what was cleared stays so
    node.start_daemon()
    node.wait(GPU, 2)


@pytest.mark.long
def test_a_gpu_is_cleared_while_the_plugin_is_stopped(make_node: MakeNode) -> None:
    node = started(make_node)
    sick(node)
    stopped(node)
    shown = health(node, "--json")
    assert shown.returncode == 3
    rows = json.loads(shown.stdout)["gpus"]
    assert [(row["index"], row["state"]) for row in rows] == [("1", "Unhealthy"), ("0", "Healthy")]
    assert UNSEEN in rows[0]["way_back"]
    assert "there is no GPU '2'" in clear(node, "2").stderr
    assert "nothing to clear" in clear(node, node.uuids()[0]).stderr
    kept = node.status_file.with_name("health.json").read_text()
    assert clear(node, node.uuids()[1]).returncode == 0
    assert clear(node, "1").returncode == 1
    assert not list(node.status_file.parent.glob(".health.json*"))
    node.start_daemon()
    node.wait(GPU, 2)
    stopped(node)
    node.status_file.with_name("health.json").write_text(kept)  # the request was for that once only
    node.start_daemon()
    node.wait(GPU, 1)


def test_a_plugin_that_runs_unseen_is_asked_too(make_node: MakeNode) -> None:
    node = started(make_node)
    sick(node)
    state = node.status()
    node.status_file.write_text(json.dumps({**state, "pid": 2**22 + 1}))  # of another namespace
    assert clear(node, "1").returncode == 0
    node.wait(GPU, 2)


def test_what_the_gpu_still_says_can_not_be_cleared(make_node: MakeNode) -> None:
    node = started(make_node)
    node.sim.ctl("wear", gpu="1", on="on")
    node.start_daemon()
    node.wait(GPU, 1)
    eventually(lambda: node.status()["health"])
    refused = clear(node, "1")
    assert refused.returncode == 1
    assert "GPU '1' can't be cleared: a memory row" in refused.stderr
    assert "what brings it back is another GPU in its place" in refused.stderr


def test_a_request_to_a_plugin_that_hangs_says_so(make_node: MakeNode) -> None:
    node = started(make_node)
    sick(node)
    node.signal(signal.SIGSTOP)
    refused = clear(node, "1", 0.1)
    assert refused.returncode == 1
    assert "has not taken the request over within" in refused.stderr
    node.signal(signal.SIGCONT)
    node.wait(GPU, 2)  # it is taken over later
