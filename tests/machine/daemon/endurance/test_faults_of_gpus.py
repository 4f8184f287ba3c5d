# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that are slow, hang, fail, vanish and come back, twenty times each."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.fakes.daemon import running
from tests.fakes.daemon.running import GPU
from tests.machine.daemon.endurance.conftest import forgotten, unhealthy
from tests.support.growth import held
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.bench.rounds import Rounds
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node
    from tests.machine.daemon.endurance.conftest import MakeRounds

pytestmark = pytest.mark.endurance

ASKED = "nvmlDeviceGetMemoryInfo"  # at each look, for each GPU
BRIEF = ("--recovery-period", "0.05")


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """A node that serves two GPUs."""
    one = make_node(2)
    one.serve(2, "", *BRIEF, DP_ENABLE_HEALTHCHECKS="94")
    return one


def sick(node: Node, count: int) -> bool:
    return list(node.health(GPU).values()).count("Unhealthy") == count


def passes(faults: Rounds, node: Node) -> None:
    """An XID that counts since the user wants it to, until it is over."""
    said = unhealthy(node)
    node.sim.ctl("xid", gpu="0", number=94)
    faults.recovers(lambda: faults.shows(lambda: unhealthy(node) > said))
    forgotten(node)


def test_nvml_is_slow(node: Node, rounds: MakeRounds) -> None:
    """Within its time a GPU stays Healthy, and is given out at once."""
    faults, (first, second) = rounds("NVML is slow over a GPU", node), node.uuids()
    for _round in faults:
        node.sim.ctl("hang", function=ASKED, gpu="0")
        with running.plugin_channel(node) as ask:
            unchanged(lambda ask=ask: (ask(first), ask(second)), ("", ""), node.looks)
        faults.shows(lambda: [ASKED, first] in node.sim.ctl("waiting"))
        faults.recovers(lambda: node.sim.ctl("clear-faults"))
    faults.check(spared=2)


def test_a_gpu_hangs_for_a_while(make_node: MakeNode, rounds: MakeRounds) -> None:
    node = make_node(2)
    _first, second = node.serve(2, "", *BRIEF, "--nvml-timeout", "1s")
    faults = rounds("NVML hangs over a GPU", node)
    for _round in faults:
        node.sim.ctl("hang", function=ASKED, gpu="0")
        faults.shows(lambda: sick(node, 1))
        with running.plugin_channel(node) as ask:
            assert ask(second) == ""
        threads = threads_of(node)
        faults.recovers(lambda: node.sim.ctl("clear-faults"))
        eventually(lambda threads=threads: threads_of(node) <= threads)
    faults.check(spared=1)


def threads_of(node: Node) -> int:
    assert node.daemon is not None
    return held(node.daemon.pid).threads


def test_an_xid_passes(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("an XID that passes", node)
    for _round in faults:
        passes(faults, node)
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
        forgotten(node)
    faults.check(spared=0)


def test_a_gpu_falls_off_the_bus_and_is_back(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("a GPU is lost and back", node)
    for _round in faults:
        node.sim.ctl("lose", gpu="1")
        faults.shows(lambda: sick(node, 1))
        faults.recovers(lambda: node.sim.ctl("restore", gpu="1"))
        forgotten(node)
    faults.check(spared=1)


def test_many_ask_while_a_gpu_fails(node: Node, rounds: MakeRounds) -> None:
    """Who asks for the GPU that is well gets it, each time."""
    faults, (_first, second) = rounds("an XID under requests", node), node.uuids()
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
            passes(faults, node)
    finally:
        over.set()
        for one in workers:
            one.join()
    assert refusals == []
    faults.check(spared=1)
