# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of a node as it is deployed, twenty times each, seen from the API server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._device_plugin import resources

from tests.bench.rounds import Rounds
from tests.cluster.cluster import Cluster

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.endurance

PLUGIN, LABELS, CONFIG = "gpu-device-plugin", "gpu-node-labels", "/etc/gpu-node/config.yaml"
GPUS, SHARES = 2, 3
SHARED = {"name": "nvidia.com/gpu", "rename": "nvidia.com/part", "replicas": SHARES, "devices": [1]}
ALL = GPUS - 1 + SHARES
MakeRounds = Callable[..., Rounds]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A node with a whole GPU and one in shares, both of them taken by pods."""
    one = make_cluster(
        "endurance", "h100-80", GPUS, device_plugin_sharing={"mps": {"resources": [SHARED]}}
    )
    one.bring_up()
    one.wait(gpu=1, part=SHARES)
    one.pod("whole", gpu=1)
    one.pod("share", part=1)
    return one


@pytest.fixture
def rounds(cluster: Cluster, record_property: Callable[[str, object], None]) -> MakeRounds:
    """Return a function that begins the rounds of a fault; restarts are those of a unit."""

    def allocatable() -> int:
        return sum(cluster.allocatable().values())

    def begin(fault: str, unit: str = PLUGIN, healthy: Callable[[], int] = allocatable) -> Rounds:
        def who() -> str:
            return process(cluster, unit)

        return Rounds(f"deployed: {fault}", healthy, who, record_property)

    return begin


def process(cluster: Cluster, unit: str) -> str:
    return cluster.node.run("systemctl", "show", "--property=ExecMainPID", "--value", unit)


def serving(cluster: Cluster) -> bool:
    return bool(cluster.node.status()["state"] == "serving")


def served(cluster: Cluster) -> int:
    """How much the plugin serves: the API server tells of it later."""
    found = cluster.node.status()["resources"].values()
    return sum(one["registered"] and resources.count(one, resources.HEALTHY) for one in found)


def logged(cluster: Cluster, words: str) -> int:
    """How often the plugin has said so."""
    told = cluster.node.run("journalctl", "--unit", PLUGIN, "--output=cat", "--no-pager")
    return told.count(words)


def pods_run(cluster: Cluster) -> None:
    assert cluster.phases() == {"whole": "Running", "share": "Running"}
    assert set(cluster.restarts().values()) == {0}


def test_the_kubelet_restarts(cluster: Cluster, rounds: MakeRounds) -> None:
    """The API server tells of the kubelet before until the new one has told of the devices that it was told of."""

    def registrations() -> int:
        return logged(cluster, "registered resource")

    faults = rounds("the kubelet restarts")
    for _round in faults:
        before = registrations()
        faults.recovers(
            lambda: cluster.node.run("systemctl", "restart", "kubelet"),
            lambda before=before: registrations() >= before + len(cluster.allocatable()) > before,
        )
    faults.check(spared=0)
    pods_run(cluster)


def test_the_plugin_is_killed(cluster: Cluster, rounds: MakeRounds) -> None:
    faults = rounds("the plugin is killed")
    for _round in faults:
        before = process(cluster, PLUGIN)
        faults.recovers(
            lambda: cluster.node.run("systemctl", "kill", "--signal=KILL", PLUGIN),
            lambda before=before: process(cluster, PLUGIN) != before and serving(cluster),
        )
    faults.check(spared=0, restarts=len(faults.row.times))
    pods_run(cluster)


def test_the_labels_are_killed(cluster: Cluster, rounds: MakeRounds) -> None:
    count = "nvidia.com/gpu.count"
    faults = rounds("the labels' process is killed, and a label is gone", LABELS)
    for _round in faults:
        cluster.node.run("systemctl", "kill", "--signal=KILL", LABELS)
        cluster.kubectl("label", "node", cluster.node.name, f"{count}-")
        faults.recovers(lambda: None, lambda: cluster.labels().get(count) == str(GPUS))
    faults.check(spared=ALL, restarts=len(faults.row.times))


def test_the_api_server_is_killed(cluster: Cluster, rounds: MakeRounds) -> None:
    """Nobody of ours has to be started anew, and what the kubelet knows of devices stays."""

    def answers() -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return "ok" in cluster.kubectl("get", "--raw=/readyz")
        return False

    kill = ("systemctl", "kill", "--signal=KILL", "kube-apiserver")  # else it waits for watches
    for unit in (PLUGIN, LABELS):
        faults = rounds(f"the API server is killed: {unit}", unit, lambda: served(cluster))
        for _round in faults:
            faults.recovers(lambda: cluster.node.run(*kill), answers)
        faults.check(spared=ALL)
    cluster.wait(gpu=1, part=SHARES)
    pods_run(cluster)


def test_an_mps_daemon_is_killed(cluster: Cluster, rounds: MakeRounds) -> None:
    def ready() -> int:
        """The process of the control daemon once it has its limits."""
        told = cluster.node.run("/opt/gpu-node/bin/gpu-plugin", "mps", "status", "--json")
        (state,) = json.loads(told)
        return int(state["daemon"]) if state["state"] == "ready" else 0

    again = "device is healthy again"
    faults = rounds("an MPS control daemon is killed", PLUGIN, lambda: served(cluster))
    for _round in faults:
        before, said = ready(), logged(cluster, again)
        faults.recovers(
            lambda before=before: cluster.node.run("kill", "-KILL", str(before)),
            lambda before=before, said=said: (
                logged(cluster, again) > said and ready() not in (0, before)
            ),
        )
    faults.check(spared=1)
    cluster.wait(gpu=1, part=SHARES)
    pods_run(cluster)


def test_a_bad_configuration_is_written(cluster: Cluster, rounds: MakeRounds) -> None:
    good = cluster.node.run("cat", CONFIG)
    write = ("sh", "-c", 'printf %s "$1" >"$0"', CONFIG)
    faults = rounds("a bad configuration")
    for _round in faults:
        cluster.node.run(*write, "flags: {none: 1}")
        faults.shows(lambda: cluster.node.status()["config_problem"])
        faults.recovers(
            lambda: cluster.node.run(*write, good),
            lambda: not cluster.node.status()["config_problem"],
        )
    faults.check(spared=ALL)
