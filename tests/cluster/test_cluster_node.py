# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that is in its cluster when the playbook brings it up: pods with GPUs, MIG devices and MPS shares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

MIG = {
    "version": "v1",
    "mig-configs": {
        "mixed": [
            {"devices": [0, 1, 2], "mig-enabled": False, "mig-devices": {}},
            {"devices": [3], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "3g.40gb": 1}},
        ]
    },
}
OTHER = {
    "version": "v1",
    "mig-configs": {
        "other": [
            {"devices": [0, 1, 2], "mig-enabled": False, "mig-devices": {}},
            {"devices": [3], "mig-enabled": True, "mig-devices": {"1g.10gb": 4}},
        ]
    },
}
SHARED = {"name": "nvidia.com/gpu", "rename": "nvidia.com/part", "replicas": 4, "devices": [2]}
ALL = {"gpu": 2, "part": 4, "mig_1g.10gb": 2, "mig_3g.40gb": 1}
NVSIMCTL = "/opt/nvsim/bin/nvsimctl"


@pytest.fixture(scope="module")
def brought_up(make_cluster: MakeCluster) -> Cluster:
    """A node of four GPUs: two whole, one in shares, one in MIG devices."""
    sharing = {"mps": {"resources": [SHARED]}}
    cluster = make_cluster("node", "h100-80", 4, mig_config=MIG, device_plugin_sharing=sharing)
    cluster.bring_up()
    return cluster


@pytest.fixture
def cluster(brought_up: Cluster) -> Iterator[Cluster]:
    """The same node for each test, with all that it has and no pods."""
    brought_up.node.run(NVSIMCTL, "clear-faults")
    brought_up.wait(**ALL)
    yield brought_up
    brought_up.end()


def gpus(shown: list[str]) -> list[str]:
    """Return the device nodes of GPUs among what a pod shows."""
    return [line for line in shown if re.fullmatch(r"/dev/nvidia\d+", line)]


def uuids(cluster: Cluster) -> list[str]:
    words = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
    return cluster.node.run(*words).split()


def fill(cluster: Cluster) -> dict[str, list[str]]:
    """Take all that the node has, and return what each pod shows."""
    wanted = {name.replace("_", "-"): count for name, count in ALL.items()}
    names = {
        f"{resource.replace('.', '-')}-{number}": {resource: 1}
        for resource, count in wanted.items()
        for number in range(count)
    }
    for name, limits in names.items():
        cluster.begin(name, **limits)
    return {name: cluster.shown(name) for name in names}


def health(cluster: Cluster, uuid: str) -> str:
    found: dict[str, Any] = cluster.node.status()["resources"]["nvidia.com/gpu"]
    return str(found["problems"].get(uuid, ""))


def test_pods_run_on_gpus_mig_devices_and_shares(cluster: Cluster) -> None:
    pods = fill(cluster)
    whole = [gpus(shown) for name, shown in pods.items() if name.startswith("gpu-")]
    assert sorted(whole) == [["/dev/nvidia0"], ["/dev/nvidia1"]]
    for name, shown in pods.items():
        limited = [line for line in shown if line.startswith("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=")]
        assert bool(limited) == name.startswith("part-"), name
        if name.startswith("part-"):
            assert gpus(shown) == ["/dev/nvidia2"]
        if name.startswith("mig-"):
            assert gpus(shown) == ["/dev/nvidia3"]
            assert len([line for line in shown if line.startswith("/dev/nvidia-caps/")]) == 2
    told = cluster.node.run("/opt/gpu-node/bin/gpu-plugin", "status")
    for name in pods:
        assert f"default/{name}" in told, name
    cluster.begin("one-too-many", gpu=1)
    eventually(lambda: cluster.waiting(), {"one-too-many"})
    cluster.end("gpu-0")
    assert gpus(cluster.shown("one-too-many"))


def test_a_kubelet_that_restarts_keeps_all_pods(cluster: Cluster) -> None:
    pods = fill(cluster)
    for _time in range(3):
        cluster.node.run("systemctl", "restart", "kubelet")
        cluster.wait(**ALL)
    assert cluster.phases() == dict.fromkeys(pods, "Running")
    assert set(cluster.restarts().values()) == {0}
    cluster.end("gpu-0")
    assert gpus(cluster.pod("next", gpu=1))


def test_a_plugin_that_is_killed_keeps_all_pods(cluster: Cluster) -> None:
    pods = fill(cluster)
    cluster.node.run("systemctl", "kill", "--signal=KILL", "gpu-device-plugin")
    eventually(lambda: cluster.node.status()["state"], "serving")
    cluster.wait(**ALL)
    assert cluster.phases() == dict.fromkeys(pods, "Running")
    assert set(cluster.restarts().values()) == {0}
    cluster.end("gpu-0", "mig-3g-40gb-0", "part-0")
    limits = {"a": {"gpu": 1}, "b": {"mig-3g.40gb": 1}, "c": {"part": 1}}
    assert all(gpus(cluster.pod(name, **one)) for name, one in limits.items())


@pytest.fixture
def partitioned(cluster: Cluster) -> Iterator[Cluster]:
    """A node that has its layout again for the next test, whatever this one has made of it."""
    yield cluster
    cluster.end()
    back = cluster.node.play("gpu.node.mig", mig_config=MIG)
    assert back.ok, back.message()


def test_a_mig_change_is_refused_under_an_idle_pod(partitioned: Cluster) -> None:
    """The pod has its MIG device open in no process: the kubelet alone knows of it."""
    cluster = partitioned
    assert gpus(cluster.pod("idle", **{"mig-3g.40gb": 1}))
    before = cluster.node.run("nvidia-smi", "-L")
    change = cluster.node.play("gpu.node.mig", mig_config=OTHER)
    assert cluster.node.run("nvidia-smi", "-L") == before
    assert not change.ok
    results = {task: result for _action, task, result in change.results()}
    (blocked,) = results["Partition the GPUs"]["blocked_by"]
    assert "default/idle" in blocked
    assert "main" in blocked
    assert cluster.phase("idle") == "Running"
    assert cluster.allocatable()["mig-3g.40gb"] == 1
    cluster.end("idle")
    free = cluster.node.play("gpu.node.mig", mig_config=OTHER)
    assert free.ok, free.message()
    cluster.wait(gpu=2, part=4, **{"mig_1g.10gb": 4})


def test_the_node_is_labelled(cluster: Cluster) -> None:
    eventually(lambda: cluster.labels().get("nvidia.com/gpu.count"), "4")
    labels = cluster.labels()
    assert labels["nvidia.com/gpu.product"].startswith("NVIDIA-H100")
    assert labels["nvidia.com/mig-3g.40gb.count"] == "1"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert "nvidia.com/cuda.driver.major" in labels


@pytest.fixture
def mended(cluster: Cluster) -> Iterator[Cluster]:
    """A node whose GPUs are all well for the next test, whatever this one has made of them."""
    yield cluster
    cluster.node.run("systemctl", "stop", "gpu-device-plugin")
    cluster.node.run("rm", "--force", "/run/gpu-node/health.json")
    cluster.node.run("systemctl", "start", "gpu-device-plugin")


def test_a_slow_driver_takes_nothing_from_the_node(mended: Cluster) -> None:
    cluster = mended
    cluster.node.run(NVSIMCTL, "delay", "nvmlDeviceGetMigMode", "6000")
    slow = sorted(uuids(cluster))
    eventually(lambda: cluster.node.status()["slow"], slow)
    pods = fill(cluster)
    assert set(cluster.phases().values()) == {"Running"}
    assert len(cluster.phases()) == len(pods)
    assert cluster.node.status()["slow"] == slow
    cluster.wait(**ALL)
    told = cluster.node.run("/opt/gpu-node/bin/gpu-plugin", "status")
    assert f"the driver is slow, so these are as they were: {', '.join(slow)}" in told


def test_an_event_on_the_node_says_that_a_gpu_is_sick(mended: Cluster) -> None:
    cluster = mended
    sick = uuids(cluster)[0]
    cluster.node.run(NVSIMCTL, "xid", "0", "79")
    eventually(lambda: cluster.allocatable().get("gpu"), 1)
    eventually(lambda: "79" in health(cluster, sick))
    eventually(lambda: bool(cluster.events("GPUUnhealthy")))
    (event,) = cluster.events("GPUUnhealthy")
    assert event["involvedObject"]["kind"] == "Node"
    assert event["involvedObject"]["name"] == cluster.node.name
    assert sick in event["message"]
    assert "79" in event["message"]


def test_a_gpu_that_was_repaired_comes_back(mended: Cluster) -> None:
    cluster = mended
    sick = uuids(cluster)[1]
    cluster.node.run(NVSIMCTL, "xid", "1", "48")
    eventually(lambda: cluster.allocatable().get("gpu"), 1)
    assert gpus(cluster.pod("well", gpu=1)) == ["/dev/nvidia0"]
    cluster.begin("waits", gpu=1)
    eventually(lambda: cluster.waiting(), {"waits"})
    cluster.node.run("systemctl", "stop", "gpu-device-plugin")
    cluster.node.run(NVSIMCTL, "reset", "1")
    cluster.node.run("systemctl", "start", "gpu-device-plugin")
    told = cluster.node.run("/opt/gpu-node/bin/gpu-plugin", "health")
    if sick in told:  # a driver that does not show its resets
        cluster.node.run("/opt/gpu-node/bin/gpu-plugin", "health", "clear", sick)
    eventually(lambda: cluster.allocatable().get("gpu"), 2)
    assert gpus(cluster.shown("waits")) == ["/dev/nvidia1"]
    assert cluster.phase("well") == "Running"
