# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The published cases of fractions, with the stock scheduler and kubelet: two cards of 32 GiB in a node of DRA."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import claimed
from tests.cluster.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

SHARE = "share.gpu.node"


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A node whose GPUs the DRA driver gives out."""
    found = make_cluster("fractions", "v100", 2, gpu_nodes_allocation="dra")
    found.bring_up()
    claimed.manifests(found, "device-classes")
    eventually(lambda: len(published(found)), 4)
    return found


@pytest.fixture(autouse=True)
def emptied(cluster: Cluster) -> Iterator[None]:
    """Leave the node as it was: nothing that was prepared outlives its pod."""
    yield
    kinds = "deployments,replicasets,pods,resourceclaims,resourceclaimtemplates"
    cluster.kubectl("delete", kinds, "--all", "--wait=true", "--now")
    eventually(lambda: prepared(cluster), [])
    assert cluster.node.run("sh", "-c", "ls /var/run/cdi | grep claim || true") == ""


def published(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the devices of the newest slices, by their names."""
    slices = cluster.get("resourceslices")
    return {one["name"]: one for each in slices for one in each["spec"].get("devices", []) or []}


def prepared(cluster: Cluster) -> list[Any]:
    """Return what the driver says of the claims that it has prepared."""
    found: list[Any] = json.loads(cluster.node.run("cat", "/run/gpu-node/dra.json"))["claims"]
    return found


def generations(cluster: Cluster) -> list[int]:
    """Return the generation of each slice's pool."""
    return [one["spec"]["pool"]["generation"] for one in cluster.get("resourceslices")]


def settled(cluster: Cluster, name: str, running: int, pending: int) -> None:
    """Wait until so many pods run, and the scheduler has found no place for the others."""
    wanted = Counter({"Running": running} | ({"Pending": pending} if pending else {}))
    eventually(lambda: (claimed.phases(cluster, name), len(cluster.waiting())), (wanted, pending))


def test_a_node_publishes_whole_gpus_and_shares(cluster: Cluster) -> None:
    found = published(cluster)
    assert set(found) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"}
    capacity = found["gpu-0-share"]["capacity"]
    assert capacity["memory"]["value"] == "32Gi"
    assert capacity["cores"]["value"] == "100"
    assert capacity["shares"]["value"] == "10"
    assert cluster.allocatable() == {}


def test_a_pod_with_a_whole_gpu_sees_it_alone(cluster: Cluster) -> None:
    claimed.template(cluster, "whole", "gpu.gpu.node")
    claimed.deploy(cluster, "whole", 3, claimed.pod("whole"))
    settled(cluster, "whole", 2, 1)
    names = cluster.kubectl("get", "pods", "--field-selector=status.phase=Running", "--output=name")
    seen = [cluster.kubectl("logs", one).splitlines() for one in names.split()]
    nodes = [[line for line in one if line in ("/dev/nvidia0", "/dev/nvidia1")] for one in seen]
    assert sorted(nodes) == [["/dev/nvidia0"], ["/dev/nvidia1"]]


@pytest.mark.parametrize(
    ("requests", "count", "running"),
    [
        ({"memory": "10000Mi"}, 10, 6),
        ({"memory": "5000Mi", "cores": "30"}, 10, 6),
        ({"memory": "100Mi"}, 22, 20),
    ],
    ids=["memory", "memory and cores", "split count"],
)
def test_the_published_cases(
    cluster: Cluster, requests: dict[str, str], count: int, running: int
) -> None:
    claimed.template(cluster, "part", SHARE, **requests)
    claimed.deploy(cluster, "part", count, claimed.pod("part"))
    settled(cluster, "part", running, count - running)
    half = running // 2
    assert claimed.devices(cluster) == {"gpu-0-share": half, "gpu-1-share": half}


def test_a_share_is_limited_by_mps(cluster: Cluster) -> None:
    claimed.template(cluster, "part", SHARE, memory="3000Mi", cores="30")
    claimed.deploy(cluster, "part", 1, claimed.pod("part"))
    settled(cluster, "part", 1, 0)
    (name,) = cluster.kubectl("get", "pods", "--output=name").split()
    shown = cluster.kubectl("logs", name).splitlines()
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3000M" in shown
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30" in shown
    assert [one for one in shown if one in ("/dev/nvidia0", "/dev/nvidia1")] == ["/dev/nvidia0"]
    mode = ("nvidia-smi", "--id=0", "--query-gpu=compute_mode", "--format=csv,noheader")
    assert cluster.node.run(*mode).strip() == "Exclusive_Process"
    cluster.kubectl("delete", "deployment", "part", "--wait=true")
    eventually(lambda: cluster.node.run(*mode).strip(), "Default")


def test_whole_gpus_and_shares_exclude_each_other(cluster: Cluster) -> None:
    claimed.template(cluster, "part", SHARE, memory="1000Mi")
    claimed.deploy(cluster, "part", 1, claimed.pod("part"))
    settled(cluster, "part", 1, 0)
    claimed.template(cluster, "whole", "gpu.gpu.node")
    claimed.deploy(cluster, "whole", 2, claimed.pod("whole"))
    settled(cluster, "whole", 1, 1)
    assert claimed.devices(cluster) == {"gpu-0-share": 1, "gpu-1": 1}


def test_old_manifests_of_whole_gpus_run_unchanged(cluster: Cluster) -> None:
    claimed.manifests(cluster, "extended-resource")
    cluster.begin("old", gpu=1)
    assert "/dev/nvidia0" in cluster.shown("old")
    cluster.begin("both", gpu=2)
    eventually(lambda: cluster.waiting(), {"both"})
    cluster.end("old")
    assert {"/dev/nvidia0", "/dev/nvidia1"} < set(cluster.shown("both"))


def test_a_driver_that_restarts_takes_nothing_from_pods(cluster: Cluster) -> None:
    claimed.template(cluster, "part", SHARE, memory="1000Mi")
    claimed.deploy(cluster, "part", 2, claimed.pod("part"))
    settled(cluster, "part", 2, 0)
    before = prepared(cluster)
    before_it = generations(cluster)
    cluster.node.run("systemctl", "kill", "--signal=KILL", "gpu-dra.service")
    cluster.node.run("systemctl", "restart", "kubelet.service")
    eventually(lambda: prepared(cluster), before)
    settled(cluster, "part", 2, 0)
    assert set(cluster.restarts().values()) == {0}
    # A kubelet that starts removes the slices of a driver that is not there yet: they come back as they were.
    eventually(lambda: generations(cluster), before_it)
