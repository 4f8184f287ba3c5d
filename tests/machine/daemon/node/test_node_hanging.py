# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drivers that hang: each function that the daemon calls, of one GPU or of all, for good or for a while."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running, scraping

GPU, MIG = h.GPU, h.MIG
IN_TIME = 10.0  # a GPU is late after 4 seconds, and 5 lie between two looks
MIXED = "flags: {migStrategy: mixed}"
QUICK = 2.0  # seconds within which who is asked answers


@contextlib.contextmanager
def watched(node: Node) -> Iterator[None]:
    """Run as under systemd: no restart, and the watchdog is fed all the time."""
    systemd = h.Systemd(node)
    try:
        yield
    finally:
        systemd.stop()
    assert systemd.longest < 15
    assert node.daemon.poll() is None
    assert node.logged().count("info: started") == 1


def mixed_node(make_node: MakeNode, whole: int, mig: int) -> tuple[Node, list[str]]:
    """Return a running node and its GPUs; those in MIG mode come last and have a device each."""
    node = make_node(whole + mig)
    for index in range(whole, whole + mig):
        node.layout(index, "1g.10gb")
    node.start_kubelet()
    node.start_daemon(MIXED)
    node.wait(GPU, whole)
    if mig:
        node.wait(MIG, mig)
    eventually(lambda: node.status()["chores"].get("topology", "") is None)
    return node, [one["uuid"] for one in node.sim.ctl("status")["gpus"]]


def hears(node: Node, gpu: str, number: int = 31) -> None:
    """An application's XID of a GPU is logged, which changes nothing else."""
    said = node.logged().count(f"gpu={gpu} xid={number}")
    node.sim.ctl("xid", gpu=gpu, number=number)
    eventually(lambda: node.logged().count(f"gpu={gpu} xid={number}") > said)


def answers(node: Node, well: str, sick: str) -> None:
    """Allocate is answered in time: granted where a GPU is well, refused where it is not."""
    with running.plugin_channel(node) as ask:
        begun = time.monotonic()
        assert ask(well) == ""
        assert "NVML" in ask(sick)
        assert time.monotonic() - begun < QUICK


def test_the_matrix_has_every_function_that_the_daemon_calls(make_node: MakeNode) -> None:
    node, _gpus = mixed_node(make_node, 3, 1)
    node.sim.ctl("cable", gpu="0", other="1", links=2)
    node.sim.ctl("called")
    h.open_again(node)
    found: set[str] = set()
    eventually(lambda: found.update(node.sim.ctl("called")) or found >= set(h.ALL))
    assert found == set(h.ALL)


def test_each_function_that_hangs_for_good_takes_its_gpu_alone(make_node: MakeNode) -> None:
    whole, mig = len(h.ONCE) + 1, len(h.EACH_LOOK_MIG)
    node, gpus = mixed_node(make_node, whole, mig)
    well = gpus[whole - 1]
    with watched(node):
        of = h.each_its_own(h.EACH_LOOK, gpus) | h.each_its_own(h.EACH_LOOK_MIG, gpus[whole:])
        h.hang(node, of)
        h.until_sick(node, of.values(), IN_TIME)
        answers(node, well, gpus[0])
        hears(node, well)
        hears(node, gpus[0])  # of a GPU that hangs too
        assert h.sick(node) == set(of.values())
        problems = node.status()["resources"][GPU]["problems"]
        assert set(problems.values()) == {"NVML has not answered for it for 4 seconds"}
        node.sim.ctl("clear-faults")
        h.until_well(node)

        once = h.each_its_own(h.ONCE, gpus)
        h.hang(node, once)
        h.open_again(node)
        h.until_sick(node, once.values(), 2 * IN_TIME)  # links are read after everything else
        answers(node, well, gpus[0])
        node.sim.ctl("clear-faults")
        h.until_well(node)


@pytest.mark.parametrize("function", h.ONCE_MIG)
def test_what_is_asked_once_per_model_takes_its_gpu_alone(
    make_node: MakeNode, function: str
) -> None:
    node, (well, mig) = mixed_node(make_node, 1, 1)
    with watched(node):
        node.sim.ctl("hang", function=function, gpu=mig)
        h.open_again(node)
        h.until_sick(node, [mig], 2 * IN_TIME)
        with running.plugin_channel(node) as ask:
            assert ask(well) == ""
        node.sim.ctl("clear-faults")
        h.until_well(node)


def test_all_that_hang_are_sick_in_time_and_come_back(make_node: MakeNode) -> None:
    node, metrics = make_node(8), scraping.Metrics()
    node.start_kubelet()
    node.start_daemon("", "--metrics-address", metrics.address)
    node.wait(GPU, 8)
    gpus = [one["uuid"] for one in node.sim.ctl("status")["gpus"]]
    with watched(node):
        node.sim.ctl("hang", function="nvmlDeviceGetMemoryInfo")
        h.until_sick(node, gpus, IN_TIME)
        begun = time.monotonic()
        with running.plugin_channel(node) as ask:
            assert all("has not answered" in ask(gpu) for gpu in gpus)
        assert metrics.get("/healthz") == (200, "ok\n")
        assert metrics.value("gpu_plugin_chore_failed", chore="devices") == 0
        assert time.monotonic() - begun < QUICK
        shown = node.cli("status", "--status-file", node.status_file)
        assert "0 of 8 healthy" in shown.stdout
        assert "not known: NVML failed while looking at the GPUs: timed out" in shown.stdout
        node.sim.ctl("clear-faults")
        h.until_well(node)
    node.sim.ctl("hang", function="*")
    time.sleep(1.5)
    begun = time.monotonic()
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert time.monotonic() - begun < 5


def test_how_slow_a_gpu_may_be(make_node: MakeNode) -> None:
    """A look is nine calls: with a fifth of a second for each it ends in time, with one it does not."""
    node, gpus = mixed_node(make_node, 6, 0)
    with watched(node):
        for seconds, gpu in zip((0.2, 1, 6, 20, 60), gpus, strict=False):
            node.sim.ctl("delay", function="*", gpu=gpu, ms=int(seconds * 1000))
        h.until_sick(node, gpus[1:5], IN_TIME)
        answers(node, gpus[0], gpus[1])
        hears(node, gpus[5])
        time.sleep(5)
        assert h.sick(node) == set(gpus[1:5])
        node.sim.ctl("clear-faults")
        h.until_well(node)


def test_a_gpu_that_hangs_at_the_start_keeps_no_other_back(make_node: MakeNode) -> None:
    node = make_node(3)
    node.sim.ctl("hang", function="nvmlDeviceGetMemoryInfo", gpu="1")
    node.start_kubelet()
    node.start_daemon()
    eventually(lambda: len(node.ask("resources").get(GPU, {}).get("devices", ())) == 2)
    node.wait(GPU, 2)
    assert "NVML failed while reading GPU 1" in node.logged()
    node.sim.ctl("clear-faults")
    node.wait(GPU, 3)


def test_events_that_nobody_can_wait_for_are_told_of(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    node.sim.ctl("hang", function="nvmlEventSetWait_v2")
    eventually(lambda: node.status()["chores"]["events"])
    assert "has not come back from a wait" in node.status()["chores"]["events"]
    assert set(node.health(GPU).values()) == {"Healthy"}
    node.sim.ctl("clear-faults")
    eventually(lambda: node.status()["chores"]["events"] is None)
    hears(node, node.sim.ctl("status")["gpus"][0]["uuid"])
