# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of each class on a node of a genuine cluster, over and over: the GPUs afterwards, and the pods beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import claimed
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
SERVICES = ("gpu-device-plugin.service", "gpu-dra.service")
ENDS = "trap 'exit 0' TERM; echo that is all; sleep infinity & wait"
BOOT = "/proc/sys/kernel/random/boot_id"


def dra(cluster: Cluster) -> bool:
    """Tell whether the node's GPUs are given out by claims."""
    return cluster.node.variables.get("gpu_nodes_allocation") == "dra"


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


def offered(cluster: Cluster) -> dict[str, bool]:
    """Return whether new pods can get each GPU, by what the API server or the kubelet is told."""
    if dra(cluster):
        slices = cluster.get("resourceslices")
        devices = [one for each in slices for one in each["spec"].get("devices", [])]
        return {
            one["attributes"]["uuid"]["string"]: all(
                taint["effect"] == "None" for taint in one.get("taints", [])
            )
            for one in devices
        }
    devices = cluster.node.status()["resources"]["nvidia.com/gpu"]["devices"]
    return {uuid: health == "Healthy" for uuid, health in devices.items()}


def offers_all_but(cluster: Cluster, uuids: set[str]) -> None:
    """Wait until new pods can get all GPUs but these."""
    eventually(lambda: len(offered(cluster)), GPUS)
    eventually(lambda: {uuid for uuid, one in offered(cluster).items() if not one}, uuids)
    if not dra(cluster):
        cluster.wait(gpu=GPUS - len(uuids))


def in_service(cluster: Cluster) -> bool:
    """Tell whether pods may come to the node."""
    node = cluster.get("node", cluster.node.name)
    notes = node["metadata"].get("annotations", {})
    ours = {"gpu.node/cordoned", "gpu.node/failed"} & set(notes)
    return not node["spec"].get("unschedulable") and not ours


@pytest.fixture(scope="module", params=["device_plugin", "dra"])
def cluster(make_cluster: MakeCluster, request: pytest.FixtureRequest) -> Cluster:
    """A node in service with a pod on each of two GPUs."""
    one = make_cluster(
        f"repair-{request.param}", "h100-80", GPUS, gpu_nodes_allocation=request.param
    )
    one.join()
    up = one.node.play()
    assert up.ok, up.message()
    if dra(one):
        claimed.manifests(one, "device-classes")
        claimed.template(one, "whole", "gpu.gpu.node")
    offers_all_but(one, set())
    for name in ("witness", "user"):
        if dra(one):
            meta = {"name": name}
            spec = claimed.pod("whole")
            one.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        else:
            one.begin(name, gpu=1)
        one.shown(name)
    return one


def access(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Return what the runs are given."""
    path = folder / "admin.conf"
    path.write_text(cluster.control.run("cat", "/etc/kubernetes/admin.conf"))
    return {**faults.variables(folder), "gpu_nodes_kubeconfig": str(path)}


def test_gpus_of_a_node_at_once_end_as_the_table_says_and_pods_stay(
    cluster: Cluster, tmp_path: Path
) -> None:
    known, found = access(cluster, tmp_path), faults.gpus(cluster.node)
    witness, used = own(cluster, found, "witness"), own(cluster, found, "user")
    one, other, *rest = [gpu for gpu in found if gpu not in (witness, used)]
    for number in range(ROUNDS + 1):  # as nothing can be back in the first one
        every = {
            **faults.turns(number, one, other),
            **dict(zip(rest, REST, strict=True)),
            used: faults.USED,
            witness: faults.APPLICATION,
        }
        before = containers(cluster)
        round_of(cluster, every, known, tmp_path)
        assert containers(cluster) == before
        put_back(cluster, every, faults.REQUIRED)


def test_lost_gpus_wait_for_a_reboot_and_so_does_a_reset_beside_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    known, found = access(cluster, tmp_path), faults.gpus(cluster.node)
    put_back(cluster, {})
    with_pods = [own(cluster, found, one) for one in ("witness", "user")]
    free = [gpu for gpu in found if gpu not in with_pods]
    sick, lost = free[::2], free[1::2]
    for _round in range(-(-ROUNDS // len(lost))):
        every = {**dict.fromkeys(lost, faults.LOST), **dict.fromkeys(sick, faults.BESIDE)}
        before = containers(cluster)
        round_of(cluster, every, known, tmp_path)
        assert containers(cluster) == before
        put_back(cluster, every)


@pytest.fixture
def beside(make_cluster: MakeCluster) -> Cluster:
    """A node in service beside its control plane, with a pod that has a GPU, and one that has none."""
    one = make_cluster("chain", "v100", GPUS, beside=True)
    one.join()
    up = one.node.play()
    assert up.ok, up.message()
    one.wait(gpu=GPUS)
    for name, limits in (("trains", {"nvidia.com/gpu": 1}), ("serves", {})):
        spec = claimed.pod("none", ENDS)
        spec["containers"][0]["resources"] = {"limits": limits}
        claimed.deploy(one, name, 1, {"containers": spec["containers"]})
    return one


def both(cluster: Cluster) -> dict[str, str]:
    """Wait until a pod of each Deployment runs, and return the containers by the Deployments."""
    wanted = {"trains": "Running", "serves": "Running"}
    eventually(lambda: {n.split("-")[0]: one for n, one in cluster.phases().items()}, wanted)
    eventually(lambda: len(containers(cluster)), len(wanted))
    return {name.split("-")[0]: one for name, one in containers(cluster).items()}


def test_a_fault_that_comes_back_asks_for_a_reboot_and_then_for_a_replacement(
    beside: Cluster, tmp_path: Path
) -> None:
    node, known, found = beside.node, access(beside, tmp_path), faults.gpus(beside.node)
    for every in faults.chains(found):
        faults.connect(node)
        before = both(beside)
        round_of(beside, every.resets, known, tmp_path)
        # GPUs without a fault go with the reset, so the node is drained of all pods that have any.
        after = both(beside)
        assert after["serves"] == before["serves"]
        assert after["trains"] != before["trains"]
        put_back(beside, every.resets, faults.RECOVERY)

        boot, allowed = node.run("cat", BOOT), {**known, "repair_reboot": "when_needed"}
        round_of(beside, every.reboots, allowed, tmp_path)
        assert node.run("cat", BOOT) != boot
        assert not {*both(beside).values()} & {*after.values()}
        put_back(beside, every.reboots, faults.rebooted(faults.AGAIN))


def round_of(
    cluster: Cluster,
    every: dict[Gpu, Fault],
    known: dict[str, Any],
    folder: Path,
) -> None:
    """Bring faults about, repair the node, and see what became of it."""
    node = cluster.node
    since = faults.bring_about(node, every)
    play = node.play(REPAIR, **known)
    assert play.ok, play.message()
    faults.ended(node, every, folder)
    waits = {gpu.uuid for gpu, fault in every.items() if fault.fences and not fault.back}
    offers_all_but(cluster, waits)
    assert in_service(cluster)
    faults.keep("dra" if dra(cluster) else "kubernetes", play, every, since)


def put_back(cluster: Cluster, every: dict[Gpu, Fault], keep: Fault | None = None) -> None:
    """Have the node and its services forget the faults."""
    faults.put_back(cluster.node, every, keep)
    services = SERVICES[: 1 + dra(cluster)]
    cluster.node.run("systemctl", "stop", *services)
    cluster.node.run("sh", "-c", "cd /run/gpu-node && rm -f health.json dra/health.json")
    cluster.node.run("systemctl", "start", *services)
    offers_all_but(cluster, set())
