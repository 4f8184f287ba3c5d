# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drivers that hang: each function that the daemon calls, of one GPU or of all, until the test lets go."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.growth import held
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running, scraping

GPU, MIG = running.GPU, h.MIG
SOON = ("--nvml-timeout", "1s")
MIXED = "flags: {migStrategy: mixed}"
MEMORY = "nvmlDeviceGetMemoryInfo"


def patient_node(make_node: MakeNode, gpus: int) -> Node:
    """Return a node on which a GPU hangs by what the others answer meanwhile, however busy the machine is."""
    node = make_node(gpus)
    node.program = running.BY_ANSWERS
    return node


def mixed_node(make_node: MakeNode, whole: int, mig: int) -> tuple[Node, list[str]]:
    """Return a running node and its GPUs; those in MIG mode come last and have a device each."""
    node = patient_node(make_node, whole + mig)
    for index in range(whole, whole + mig):
        node.layout(index, "1g.10gb")
    gpus = node.serve(whole, MIXED, *SOON)
    if mig:
        node.wait(MIG, mig)
    eventually(lambda: node.status()["chores"].get("topology", "") is None)
    return node, gpus


def test_the_matrix_has_every_function_that_the_daemon_calls(make_node: MakeNode) -> None:
    node, _gpus = mixed_node(make_node, 3, 1)
    node.sim.ctl("cable", gpu="0", other="1", links=2)
    node.sim.ctl("called")
    h.open_again(node)
    found: set[str] = set()
    eventually(lambda: found.update(node.sim.ctl("called")) or found >= set(h.ALL))
    assert found == set(h.ALL)


def test_each_function_that_hangs_for_good_takes_its_gpu_alone(make_node: MakeNode) -> None:
    whole, mig = max(len(h.ONCE), len(h.EACH_LOOK)) + 1, len(h.EACH_LOOK_MIG)
    node, gpus = mixed_node(make_node, whole, mig)
    well = gpus[whole - 1]
    assert node.daemon is not None
    pid = node.daemon.pid
    threads = held(pid).threads
    with h.one_process(node):
        of = h.each_its_own(h.EACH_LOOK, gpus) | h.each_its_own(h.EACH_LOOK_MIG, gpus[whole:])
        h.hang(node, of)
        h.until_sick(node, of.values())
        h.serves(node, well, gpus[0])
        h.hears(node, well)
        h.hears(node, gpus[0])  # of a GPU that hangs too
        problems = node.problems(GPU)
        assert problems[gpus[0]] == (
            "NVML has not answered for it for 1 seconds. Verdict: reboot. Way back: it passes by itself as soon as NVML"
            " answers for it again"
        )
        node.sim.ctl("clear-faults")
        h.until_well(node)

        once = h.each_its_own(h.ONCE, gpus)
        h.hang_at_opening(node, once)
        h.until_sick(node, once.values())
        h.serves(node, well, gpus[0])
        node.sim.ctl("clear-faults")
        h.until_well(node)
    eventually(lambda: held(pid).threads <= threads + 2)  # those that waited have ended


@pytest.mark.long
def test_what_is_asked_once_per_model_takes_its_gpu_alone(make_node: MakeNode) -> None:
    node, (well, mig) = mixed_node(make_node, 1, 1)
    with h.one_process(node), running.plugin_channel(node) as ask:
        for function in h.ONCE_MIG:
            h.hang_at_opening(node, {function: mig})
            h.until_sick(node, [mig])
            assert ask(well) == "", function
            node.sim.ctl("clear-faults")
            h.until_well(node)


@pytest.mark.long
def test_while_all_gpus_hang_who_asks_is_answered_and_a_signal_ends_it(
    make_node: MakeNode,
) -> None:
    node, metrics = patient_node(make_node, 8), scraping.Metrics()
    gpus = node.serve(8, "", "--metrics-address", metrics.address, *SOON)
    with h.one_process(node):
        node.sim.ctl("hang", function=MEMORY)
        h.until_sick(node, gpus)
        with running.plugin_channel(node) as ask:
            assert all("has not answered" in ask(gpu) for gpu in gpus)
        assert metrics.get("/healthz") == (200, "ok\n")
        assert metrics.value("gpu_plugin_chore_failed", chore="devices") == 0
        node.wait(GPU, 0)
        shown = node.cli("status", "--status-file", node.status_file)
        assert "0 of 8 healthy" in shown.stdout
        assert "not known: NVML failed while looking at the GPUs: timed out" in shown.stdout
        node.sim.ctl("clear-faults")
        h.until_well(node)
    node.sim.ctl("hang", function="*")
    eventually(lambda: ["nvmlDeviceGetCount_v2", ""] in node.sim.ctl("waiting"))
    node.signal(signal.SIGTERM)
    assert node.ended() == 0


@pytest.mark.long
def test_a_gpu_that_is_too_slow_stays_sick_while_it_is(make_node: MakeNode) -> None:
    """Its looks end, each too late; it does not come and go with them."""
    node = make_node(2)
    slow, well = node.serve(2, MIXED, *SOON)
    node.sim.ctl("delay", function=MEMORY, gpu=slow, ms=1500)
    h.until_sick(node, [slow])
    h.serves(node, well, slow)
    asked = 0

    def looks() -> int:
        nonlocal asked
        asked += node.sim.ctl("called").get(MEMORY, {}).get(slow, 0)
        return asked

    unchanged(lambda: slow in h.sick(node), True, looks)
    node.sim.ctl("clear-faults")
    h.until_well(node)


@pytest.mark.long
def test_a_driver_that_is_slow_takes_no_device_away_and_is_told_of(make_node: MakeNode) -> None:
    node, metrics = make_node(2), scraping.Metrics()
    gpus = node.serve(2, "", "--metrics-address", metrics.address)
    node.sim.ctl("delay", function="nvmlDeviceGetMigMode", ms=6000)
    eventually(lambda: node.status()["slow"], sorted(gpus))
    unchanged(lambda: set(node.health(GPU).values()), {"Healthy"}, node.fed)
    with running.plugin_channel(node) as ask:
        assert [ask(gpu) for gpu in gpus] == ["", ""]
    assert "the driver is slow: GPU 0" in node.logged()
    assert [metrics.value("gpu_plugin_driver_slow", uuid=gpu) for gpu in gpus] == [1, 1]
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert f"the driver is slow, so these are as they were: {', '.join(sorted(gpus))}" in shown
    assert node.status()["health"] == []
    node.sim.ctl("clear-faults")
    eventually(lambda: node.status()["slow"], [])


def test_a_gpu_within_its_time_stays_healthy_and_no_other_waits_for_it(
    make_node: MakeNode,
) -> None:
    node = make_node(3)
    late, well, other = node.serve(3)
    node.sim.ctl("hang", function=MEMORY, gpu=late)
    eventually(lambda: [MEMORY, late] in node.sim.ctl("waiting"))
    unchanged(lambda: h.sick(node), set(), node.looks)
    node.sim.ctl("xid", gpu=other, number=79)
    h.until_sick(node, [other])
    h.serves(node, well, other)
    assert [MEMORY, late] in node.sim.ctl("waiting")


@pytest.mark.parametrize("of", [{"gpu": "1"}, {}], ids=["one GPU", "all"])
def test_a_driver_that_hangs_at_the_start_holds_up_nothing(
    make_node: MakeNode, of: dict[str, str]
) -> None:
    node = patient_node(make_node, 3)
    node.sim.ctl("hang", function=MEMORY if of else "nvmlDeviceGetCount_v2", **of)
    node.start_kubelet()
    node.start_daemon("", *SOON)
    eventually(lambda: "READY=1" in node.notifications())
    eventually(node.fed)
    if of:
        node.wait(GPU, 2)
        assert len(node.health(GPU)) == 2
        assert "NVML failed while reading GPU 1" in node.logged()
    else:
        assert "has not answered" in node.status()["problem"]
    node.sim.ctl("clear-faults")
    node.wait(GPU, 3)


@pytest.mark.long
def test_events_that_nobody_can_wait_for_are_told_of(make_node: MakeNode) -> None:
    node = make_node(1)
    (gpu,) = node.serve(1, "", *SOON)
    node.sim.ctl("hang", function="nvmlEventSetWait_v2")
    problem = eventually(lambda: node.status()["chores"]["events"])
    assert "has not come back from a wait" in problem
    assert set(node.health(GPU).values()) == {"Healthy"}
    node.sim.ctl("clear-faults")
    eventually(lambda: node.status()["chores"]["events"] is None)
    h.hears(node, gpu)
