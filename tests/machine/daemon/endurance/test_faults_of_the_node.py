# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet, the plugin, its files and the API go and come back, twenty times each."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.support.rounds import ROUNDS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node
    from tests.machine.daemon.endurance.conftest import MakeRounds

from tests.fakes.daemon import running

pytestmark = pytest.mark.endurance

GPU = "nvidia.com/gpu"
COUNT = "nvidia.com/gpu.count"
QUIET = "0.05"  # recovery period
FORGOTTEN = 1.5  # more than twenty of them, and a look
GOOD, BAD = "flags: {migStrategy: none}", "flags: {migStrategie: none}"


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """A node that serves two GPUs."""
    one = make_node(2)
    one.start_kubelet()
    one.start_daemon(GOOD)
    one.wait(GPU, 2)
    eventually(lambda: registered(one))
    return one


def registered(node: Node) -> bool:
    return bool(node.status()["resources"].get(GPU, {}).get("registered"))


def test_the_kubelet_restarts(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("the kubelet restarts", node)
    for _round in faults:
        faults.recovers(lambda: node.ask("restart"))
    faults.check(spared=0)
    assert node.admit("one", gpu=2)["envs"]


def test_the_plugin_is_killed(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("the plugin is killed", node)
    for _round in faults:
        node.signal(signal.SIGKILL)
        node.ended()
        node.wait(GPU, 0)
        faults.recovers(lambda: node.start_daemon(GOOD), lambda: registered(node))
    faults.check(spared=0, restarts=ROUNDS)
    assert node.admit("one", gpu=2)["envs"]


def test_a_bad_configuration_is_written(node: Node, rounds: MakeRounds) -> None:
    faults = rounds("a bad configuration", node)
    for _round in faults:
        node.config.write_text(BAD)
        faults.shows(lambda: node.status().get("config_problem"))
        faults.recovers(
            lambda: node.config.write_text(GOOD), lambda: not node.status()["config_problem"]
        )
    faults.check(spared=2)


@pytest.fixture
def full(small_run: Node) -> Node:
    """A node that serves, and whose /run has room for a few files only."""
    small_run.start_kubelet()
    small_run.start_daemon(GOOD, "--recovery-period", QUIET)
    small_run.wait(GPU, 2)
    eventually(lambda: registered(small_run))
    return small_run


def test_run_is_full(full: Node, rounds: MakeRounds) -> None:
    faults = rounds("/run is full", full)
    for _round in faults:
        filler = running.fill(full.status_file.parent)
        full.sim.ctl("xid", gpu="1", number=94)  # passes, and has to be written down
        faults.shows(lambda: set(full.health(GPU).values()) != {"Healthy"})
        faults.shows(lambda: "chore=health_file" in full.logged())
        with running.plugin_channel(full) as ask:
            assert ask(next(iter(full.health(GPU)))) == ""
        faults.recovers(filler.unlink, lambda: not any(full.status()["chores"].values()))
        time.sleep(FORGOTTEN)
    faults.check(spared=1)


def test_the_api_is_away(make_node: MakeNode, rounds: MakeRounds) -> None:
    one = make_node(2)
    one.start_kubelet()
    one.start_daemon(GOOD)
    one.wait(GPU, 2)
    api, labels = Api(one.folder), one.folder / "labels.yaml"
    labels.write_text("flags: {gfd: {sleepInterval: 1s, noTimestamp: true}}")
    words: list[object] = ["labels", "--config", labels, "--node-name", NODE]
    words += ["--kubeconfig", api.kubeconfig, "--host-root", one.sim.root]
    labeller = one.python("-m", "gpu_plugin", *words, "--status-file", one.folder / "labels.json")
    try:
        eventually(lambda: api.own().get(COUNT) == "2")
        faults = rounds("the API is away", one, lambda: (labeller.pid, labeller.poll()))
        for number in faults:
            api.stop()
            api.set(**{COUNT: str(number + 5)})  # somebody writes, whom the watch does not see
            time.sleep(1)
            faults.recovers(api.start, lambda: api.own().get(COUNT) == "2")
        faults.check(spared=2)
    finally:
        labeller.kill()
        labeller.wait()
        api.stop()
