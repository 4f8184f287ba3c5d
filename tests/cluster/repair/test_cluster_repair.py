# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of each class on a node of a genuine cluster, over and over: the GPUs afterwards, and the pods beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import claimed
from tests.cluster.cluster import SHOW
from tests.node.repair import faults, times
from tests.node.repair.faults import GPUS, ROUNDS, Fault, Gpu
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.conftest import MakeCluster

HOURS = 4 * 3600  # after which it hangs
pytestmark = [pytest.mark.endurance, pytest.mark.timeout(HOURS)]

ALLOCATIONS = ("device_plugin", "dra")
USERS, WITNESSES = ("user-0", "user-1"), ("witness-0", "witness-1")
REST = (faults.RECOVERY, faults.FABRIC, faults.MEMORY, faults.UNKNOWN)
SERVICES = ("gpu-device-plugin.service", "gpu-dra.service")
ENDS = "trap 'exit 0' TERM; echo that is all; sleep infinity & wait"
BOOT = "/proc/sys/kernel/random/boot_id"


def dra(cluster: Cluster) -> bool:
    """Return whether the node's GPUs are given out by claims."""
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
    """Return whether pods may come to the node."""
    node = cluster.get("node", cluster.node.name)
    notes = node["metadata"].get("annotations", {})
    ours = {"gpu.node/cordoned", "gpu.node/failed"} & set(notes)
    return not node["spec"].get("unschedulable") and not ours


def bring_up(
    make_cluster: MakeCluster, name: str, product: str, allocation: str, *, beside: bool = False
) -> Cluster:
    """Bring a node up that has joined, and wait until its GPUs are offered."""
    name, variables = f"{name}-{allocation.replace('_', '-')}", {"gpu_nodes_allocation": allocation}
    cluster = make_cluster(name, product, GPUS, beside=beside, **variables)
    cluster.bring_up()
    if dra(cluster):
        claimed.manifests(cluster, "device-classes")
        claimed.template(cluster, "whole", "gpu.gpu.node")
    offers_all_but(cluster, set())
    return cluster


def with_gpu(cluster: Cluster, command: str = SHOW) -> dict[str, Any]:
    """Return the spec of a pod that has a GPU, by a claim or from the device plugin."""
    spec = claimed.pod("whole", command)
    if not dra(cluster):
        del spec["resourceClaims"]
        spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    return spec


@pytest.fixture(scope="module", params=ALLOCATIONS)
def cluster(make_cluster: MakeCluster, request: pytest.FixtureRequest) -> Cluster:
    """A node in service with a pod on each of four GPUs."""
    one = bring_up(make_cluster, "repair", "h100-80", request.param)
    for name in USERS + WITNESSES:
        meta, spec = {"name": name}, with_gpu(one)
        one.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
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
    used, witnesses = ([own(cluster, found, one) for one in pods] for pods in (USERS, WITNESSES))
    free = [gpu for gpu in found if gpu not in used + witnesses]
    for number in range(ROUNDS // 2 + 1):  # as nothing can be back in the first one
        every = {
            **faults.turns(number, free[:2], free[2:4]),
            **dict(zip(free[4:], 2 * REST, strict=True)),
            **dict.fromkeys(used, faults.USED),
            **dict.fromkeys(witnesses, faults.APPLICATION),
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
    with_pods = [own(cluster, found, one) for one in USERS + WITNESSES]
    every = faults.lost([gpu for gpu in found if gpu not in with_pods])
    for _round in range(-(-2 * ROUNDS // len(every))):
        before = containers(cluster)
        round_of(cluster, every, known, tmp_path)
        assert containers(cluster) == before
        put_back(cluster, every)


@pytest.fixture(params=ALLOCATIONS)
def beside(make_cluster: MakeCluster, request: pytest.FixtureRequest) -> Cluster:
    """A node in service beside its control plane, with a pod that has a GPU, and one that has none."""
    one = bring_up(make_cluster, "chain", "v100", request.param, beside=True)
    trains = with_gpu(one, ENDS)
    del trains["tolerations"], trains["terminationGracePeriodSeconds"]  # as it can be drained
    (container,) = trains["containers"]
    claimed.deploy(one, "trains", 1, trains)
    claimed.deploy(one, "serves", 1, {"containers": [{**container, "resources": {}}]})
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

        round_of(beside, every.waits, known, tmp_path)
        assert both(beside) == after

        boot, allowed = node.run("cat", BOOT), {**known, "repair_reboot": "when_needed"}
        round_of(beside, every.more, allowed, tmp_path, every.reboots)
        assert node.run("cat", BOOT) != boot
        assert not {*both(beside).values()} & {*after.values()}
        put_back(beside, every.reboots, faults.rebooted(faults.AGAIN))


def round_of(
    cluster: Cluster,
    every: dict[Gpu, Fault],
    known: dict[str, Any],
    folder: Path,
    ends: dict[Gpu, Fault] | None = None,
) -> None:
    """Bring faults about, repair the node, and see what became of them, and of those that were there before."""
    rows = faults.repaired(cluster.node, every, known, folder, ends)
    waits = {gpu.uuid for gpu, fault in (ends or every).items() if fault.fences and not fault.back}
    offers_all_but(cluster, waits)
    assert in_service(cluster)
    times.keep("dra" if dra(cluster) else "kubernetes", rows)


def put_back(cluster: Cluster, every: dict[Gpu, Fault], keep: Fault | None = None) -> None:
    """Have the node and its services forget the faults."""
    faults.put_back(cluster.node, every, keep)
    services = SERVICES[: 1 + dra(cluster)]
    cluster.node.run("systemctl", "stop", *services)
    cluster.node.run("sh", "-c", "cd /run/gpu-node && rm -f health.json dra/health.json")
    cluster.node.run("systemctl", "start", *services)
    offers_all_but(cluster, set())
