# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that are slow, hang, fail, vanish and come back, twenty times each."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.growth import held

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node
    from tests.machine.daemon.endurance.conftest import MakeRounds

from tests.fakes.daemon import running

pytestmark = pytest.mark.endurance

GPU = "nvidia.com/gpu"
ASKED = "nvmlDeviceGetMemoryInfo"  # at each scan, for each GPU
QUIET = 0.05  # recovery period
FORGOTTEN = 1.5  # more than twenty of them, and a look
HANGS = 20_000  # milliseconds, of which a GPU is late after half
ANSWER = 2.0  # seconds for Allocate on a machine that is busy


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """A node that serves two GPUs."""
    one = make_node(2)
    one.start_kubelet()
    one.start_daemon("", "--recovery-period", str(QUIET))
    one.wait(GPU, 2)
    return one


def sick(node: Node, count: int) -> bool:
    return list(node.health(GPU).values()).count("Unhealthy") == count


def ids(node: Node) -> list[str]:
    return [str(one["uuid"]) for one in node.sim.ctl("status")["gpus"]]


def test_nvml_is_slow(node: Node, rounds: MakeRounds) -> None:
    """Three seconds a call are late, and no fault: all stays Healthy, and is given out at once."""
    faults, (first, second) = rounds("NVML takes 3 s", node), ids(node)
    for _round in faults:
        node.sim.ctl("delay", function=ASKED, gpu="0", ms=3000)
        with running.plugin_channel(node) as ask:
            until = time.monotonic() + 4
            while time.monotonic() < until:
                begun = time.monotonic()
                assert (ask(first), ask(second)) == ("", "")
                assert time.monotonic() - begun < ANSWER
                faults.shows(lambda: True)
                time.sleep(0.2)
        faults.recovers(lambda: node.sim.ctl("clear-faults"))
    faults.check(spared=2)


def test_a_gpu_hangs_for_a_while(node: Node, rounds: MakeRounds) -> None:
    faults, (_first, second) = rounds("NVML hangs over a GPU", node), ids(node)
    for _round in faults:
        node.sim.ctl("delay", function=ASKED, gpu="0", ms=HANGS)
        faults.shows(lambda: sick(node, 1))
        with running.plugin_channel(node) as ask:
            assert ask(second) == ""
        threads = threads_of(node)
        faults.recovers(lambda: node.sim.ctl("clear-faults"))
        assert threads_of(node) <= threads
    faults.check(spared=1)


def threads_of(node: Node) -> int:
    assert node.daemon is not None
    return held(node.daemon.pid).threads


def test_an_xid_passes(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("an XID that passes", node)
    for _round in faults:
        node.sim.ctl("xid", gpu="0", number=94)
        faults.recovers(lambda: faults.shows(lambda: sick(node, 1)))
        time.sleep(FORGOTTEN)  # else the fourth of them needs a reset
    faults.check(spared=1)


def test_an_xid_needs_a_driver_that_is_loaded_again(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("a fatal XID, and the driver is loaded again", node)

    def load() -> None:
        node.sim.ctl("unload")
        node.wait(GPU, 0)
        node.sim.ctl("load", version="550.163.01", flavour="open")

    for _round in faults:
        node.sim.ctl("xid", gpu="0", number=48)
        faults.shows(lambda: sick(node, 1))
        faults.recovers(load)
        time.sleep(FORGOTTEN)
    faults.check(spared=0)


def test_a_gpu_falls_off_the_bus_and_is_back(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("a GPU is lost and back", node)
    for _round in faults:
        node.sim.ctl("lose", gpu="1")
        faults.shows(lambda: sick(node, 1))
        faults.recovers(lambda: node.sim.ctl("restore", gpu="1"))
        time.sleep(FORGOTTEN)
    faults.check(spared=1)


def test_many_ask_while_a_gpu_fails(node: Node, rounds: MakeRounds) -> None:
    """Who asks for the GPU that is well gets it, each time."""
    faults, (_first, second) = rounds("an XID under requests", node), ids(node)
    refusals: list[str] = []
    over = threading.Event()

    def work() -> None:
        with running.plugin_channel(node) as ask:
            while not over.is_set():
                refusals.extend(filter(None, [ask(second)]))

    workers = [threading.Thread(target=work) for _one in range(4)]
    for one in workers:
        one.start()
    try:
        for _round in faults:
            node.sim.ctl("xid", gpu="0", number=94)
            faults.recovers(lambda: faults.shows(lambda: sick(node, 1)))
            time.sleep(FORGOTTEN)
    finally:
        over.set()
        for one in workers:
            one.join()
    assert refusals == []
    faults.check(spared=1)
