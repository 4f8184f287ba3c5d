# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of each class on a node of a genuine cluster, over and over: the GPUs afterwards, and the pods beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.node.repair import faults
from tests.node.repair.faults import REPAIR, ROUNDS, Fault, Gpu
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.conftest import MakeCluster

HOURS = 4 * 3600  # after which it hangs
pytestmark = [pytest.mark.endurance, pytest.mark.timeout(HOURS)]

GPUS = 8
REST = (faults.RECOVERY, faults.FABRIC, faults.MEMORY, faults.UNKNOWN)


def own(cluster: Cluster, found: list[Gpu], pod: str) -> Gpu:
    """Return the GPU that a pod has, by the device nodes that it sees."""
    shown = cluster.shown(pod)
    (gpu,) = [one for one in found if f"/dev/nvidia{one.index}" in shown]
    return gpu


def containers(cluster: Cluster) -> dict[str, str]:
    """Return the container of each pod that runs."""
    return {
        one["metadata"]["name"]: one["status"]["containerStatuses"][0]["containerID"]
        for one in cluster.get("pods")
        if one["status"]["phase"] == "Running"
    }


def offered(cluster: Cluster) -> set[str]:
    """Return the GPUs that the device plugin tells the kubelet to give out."""
    devices = cluster.node.status()["resources"]["nvidia.com/gpu"]["devices"]
    return {uuid for uuid, health in devices.items() if health == "Healthy"}


def in_service(cluster: Cluster) -> bool:
    """Tell whether pods may come to the node."""
    node = cluster.get("node", cluster.node.name)
    notes = node["metadata"].get("annotations", {})
    ours = {"gpu.node/cordoned", "gpu.node/failed"} & set(notes)
    return not node["spec"].get("unschedulable") and not ours


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A node in service with a pod on each of two GPUs."""
    one = make_cluster("repair", "h100-80", GPUS)
    one.join()
    up = one.node.play()
    assert up.ok, up.message()
    one.wait(gpu=GPUS)
    one.pod("witness", gpu=1)
    one.pod("user", gpu=1)
    return one


def access(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Return what the runs are given."""
    path = folder / "admin.conf"
    path.write_text(cluster.node.run("cat", "/etc/kubernetes/admin.conf"))
    return {**faults.variables(folder), "gpu_nodes_kubeconfig": str(path)}


def test_gpus_of_a_node_at_once_end_as_the_table_says_and_pods_stay(
    cluster: Cluster, tmp_path: Path
) -> None:
    known, found = access(cluster, tmp_path), faults.gpus(cluster.node)
    witness, used = own(cluster, found, "witness"), own(cluster, found, "user")
    one, other, *rest = [gpu for gpu in found if gpu not in (witness, used)]
    for number in range(ROUNDS):
        every = {
            **faults.turns(number, one, other),
            **dict(zip(rest, REST, strict=True)),
            used: faults.USED,
            witness: faults.APPLICATION,
        }
        round_of(cluster, every, known, tmp_path)
        faults.put_back(cluster.node, every, faults.REQUIRED)
        all_back(cluster)


def test_lost_gpus_wait_for_a_reboot_and_so_does_a_reset_beside_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    known, found = access(cluster, tmp_path), faults.gpus(cluster.node)
    faults.put_back(cluster.node, {})
    with_pods = [own(cluster, found, one) for one in ("witness", "user")]
    sick, *lost = [gpu for gpu in found if gpu not in with_pods]
    for _round in range(-(-ROUNDS // len(lost))):
        every = {**dict.fromkeys(lost, faults.LOST), sick: faults.BESIDE}
        round_of(cluster, every, known, tmp_path)
        faults.put_back(cluster.node, every)
        all_back(cluster)


def round_of(
    cluster: Cluster, every: dict[Gpu, Fault], known: dict[str, Any], folder: Path
) -> None:
    """Bring faults about, repair the node, and see what became of it."""
    before, node = containers(cluster), cluster.node
    since = faults.bring_about(node, every)
    play = node.play(REPAIR, **known)
    assert play.ok, play.message()
    faults.ended(node, every, folder)
    waits = {gpu.uuid for gpu, fault in every.items() if fault.fences and not fault.back}
    eventually(lambda: not offered(cluster) & waits)
    cluster.wait(gpu=GPUS - len(waits))
    assert in_service(cluster)
    assert containers(cluster) == before
    faults.keep("kubernetes", play, every, since)


def all_back(cluster: Cluster) -> None:
    """Have the device plugin forget the faults, too."""
    cluster.node.run("systemctl", "stop", "gpu-device-plugin.service")
    cluster.node.run("sh", "-c", "rm -f /run/gpu-node/health.json")
    cluster.node.run("systemctl", "start", "gpu-device-plugin.service")
    cluster.wait(gpu=GPUS)
