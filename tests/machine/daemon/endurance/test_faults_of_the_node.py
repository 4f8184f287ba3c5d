# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet, the plugin, its files and the API go and come back, twenty times each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.rounds import ROUNDS
from tests.fakes.daemon import running
from tests.fakes.daemon.running import GPU
from tests.machine.daemon.endurance.conftest import forgotten, unhealthy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.labelling import Start
    from tests.fakes.daemon.running import Node
    from tests.machine.daemon.endurance.conftest import MakeRounds

pytestmark = pytest.mark.endurance

GOOD, BAD = "flags: {migStrategy: none}", "flags: {migStrategie: none}"
LABELS = "flags: {gfd: {sleepInterval: 1s, noTimestamp: true}}"


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """A node that serves two GPUs."""
    one = make_node(2)
    one.serve(2, GOOD)
    one.registered()
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
        node.kill()
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
    small_run.serve(2, GOOD, "--recovery-period", "0.05", DP_ENABLE_HEALTHCHECKS="94")
    small_run.registered()
    return small_run


def test_run_is_full(full: Node, rounds: MakeRounds) -> None:
    faults = rounds("/run is full", full)
    for _round in faults:
        filler, said = running.fill(full.status_file.parent), unhealthy(full)
        full.sim.ctl("xid", gpu="1", number=94)  # passes, and has to be written down
        faults.shows(lambda said=said: unhealthy(full) > said)
        faults.shows(
            lambda: full.logged().count("chore=health_file") % 2
        )  # it fails, or works again
        with running.plugin_channel(full) as ask:
            assert ask(next(iter(full.health(GPU)))) == ""
        faults.recovers(filler.unlink, lambda: not any(full.status()["chores"].values()))
        forgotten(full)
    faults.check(spared=1)


def test_the_api_is_away(labeller: Start, rounds: MakeRounds) -> None:
    one = labeller(2)
    one.node.serve(2, LABELS)
    one.start(LABELS)
    one.wait(gpu_count="2")
    assert one.process is not None
    labels = one.process
    faults = rounds("the API is away", one.node, lambda: (labels.pid, labels.poll()))

    def told() -> int:
        return one.node.logged().count("node: trying again")

    for number in faults:
        said = told()
        one.api.stop()
        one.api.set(
            nvidia_com__gpu_count=str(number + 5)
        )  # by somebody whom the watch does not see
        eventually(lambda said=said: told() > said)
        faults.recovers(one.api.start, lambda: one.wait(gpu_count="2"))
    faults.check(spared=2)
