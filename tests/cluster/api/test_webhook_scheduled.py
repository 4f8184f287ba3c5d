# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's pods from their controllers to a node: with genuine controllers, the stock scheduler and published GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import GPU, GPU_CLASS, MIG, MIG_CLASS, SHARE, SHARE_CLASS

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.fakes.kubernetes.genuine_api import found
from tests.fakes.kubernetes.webhook_cluster import DRA, Cluster, GenuineCluster
from tests.support.ports import reserve
from tests.support.waiting import eventually

NAMES = ("deployment", "replicaset", "job", "statefulset", "resourceclaim")
CONTROLLERS = ",".join(f"{name}-controller" for name in NAMES)
PODS = "/api/v1/namespaces/default/pods"
GIB = 32
SHARES = {"nvidia.com/vgpu-mode": "hami-core"}  # and no MIG device


def device(name: str, kind: str, product: str, counters: str, numa: int, size: int = GIB) -> Json:
    card = name.split("-")[1]
    texts = {"type": kind, "productName": product, "enforcement": "none" if kind == SHARE else ""}
    if kind != MIG:
        texts["uuid"] = f"GPU-{card}"
    else:
        texts["gpu.nvidia.com/parentUUID"] = f"GPU-{card}"
    attributes: Json = {key: {"string": text} for key, text in texts.items() if text}
    attributes["numaNode"] = {"int": numa}
    memory = {"value": f"{size}Gi"}
    made: Json = {"name": name, "attributes": attributes}
    made["consumesCounters"] = [{"counterSet": counters, "counters": {"memory": memory}}]
    if kind != SHARE:
        return {**made, "capacity": {"gpu.nvidia.com/memory": memory}}
    ranges = {"min": "1Mi", "step": "1Mi"}, {"min": "0", "max": "100", "step": "1"}
    made["capacity"] = {
        "memory": {
            **memory,
            "requestPolicy": {"default": memory["value"], "validRange": ranges[0]},
        },
        "cores": {"value": "100", "requestPolicy": {"default": "0", "validRange": ranges[1]}},
        "shares": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1"]}},
    }
    return {**made, "allowMultipleAllocations": True}


def cards(node: str, *products: str, mig: bool = False) -> list[Json]:
    """Return the slices of a node with such GPUs: whole and shared, or divided into 8 and 16 GiB."""
    sets, devices = [], []
    for number, product in enumerate(products):
        counters = f"gpu-{number}-counter-set"
        sets.append({"name": counters, "counters": {"memory": {"value": f"{GIB}Gi"}}})
        if mig:
            devices += [
                device(f"gpu-{number}-m{n}", MIG, product, counters, 0, (16, 8, 8)[n])
                for n in range(3)
            ]
        else:
            devices.append(device(f"gpu-{number}", GPU, product, counters, number // 2))
            devices.append(device(f"gpu-{number}-share", SHARE, product, counters, number // 2))
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": "gpu.node", "nodeName": node, "pool": pool}
    parts: tuple[Json, ...] = ({"sharedCounters": sets}, {"devices": devices})
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{number}"},
            "spec": {**common, **part},
        }
        for number, part in enumerate(parts)
    ]


def set_up(cluster: Cluster) -> None:
    """A node of four cards of two kinds, and one whose card is divided; no GPU is anybody's."""
    for kind, name in ((GPU, GPU_CLASS), (MIG, MIG_CLASS), (SHARE, SHARE_CLASS)):
        selector = f'device.driver == "gpu.node" && device.attributes["gpu.node"].type == "{kind}"'
        spec = {"selectors": [{"cel": {"expression": selector}}]}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
        }
        cluster.post(f"{DRA}/deviceclasses", {**body, "spec": spec})
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    for name in ("node-1", "node-2"):
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        kind = "application/merge-patch+json"
        cluster.admin.ask(
            "readying", "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, kind=kind
        )
        taints: Json = {
            "spec": {"taints": None}
        }  # that it is not ready, which a controller takes away
        cluster.admin.ask("readying", "PATCH", f"/api/v1/nodes/{name}", taints, kind=kind)
    t4, a100 = "Tesla T4", "NVIDIA A100-SXM4-80GB"
    for one in (*cards("node-1", t4, t4, a100, a100), *cards("node-2", "NVIDIA H100", mig=True)):
        cluster.post(f"{DRA}/resourceslices", one)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenuineCluster]:
    scheduler, manager = found("kube-scheduler"), found("kube-controller-manager")
    with GenuineCluster(tmp_path_factory.mktemp("api")) as made:
        common = [
            f"--kubeconfig={made.folder}/admin.conf",
            "--leader-elect=false",
            f"--cert-dir={made.folder}",
        ]
        made.start(scheduler, *common, f"--secure-port={reserve(made)}")
        made.start(
            manager, *common, f"--secure-port={reserve(made)}", f"--controllers={CONTROLLERS}"
        )
        set_up(made)
        made.replica("webhook", kubeconfig=made.least()).wait()
        yield made


@pytest.fixture(autouse=True)
def empty(cluster: Cluster) -> Iterator[None]:
    """No pod has anything, before and after."""
    yield
    for one in pods(cluster):
        cluster.remove(f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
    eventually(lambda: not pods(cluster))
    path = f"{DRA}/namespaces/default/resourceclaims"
    for one in cluster.read(path)["items"]:  # as the garbage collector does
        cluster.remove(f"{path}/{one['metadata']['name']}")
    eventually(lambda: not cluster.read(path)["items"])


def pods(cluster: Cluster) -> list[Json]:
    return list(cluster.read(PODS)["items"])


def placed(cluster: Cluster, one: Json, number: int = 1) -> list[list[str]]:
    """Create a pod so many times, and return the devices that each of those has which are scheduled."""
    names = [cluster.pod(one)["metadata"]["name"] for _each in range(number)]
    eventually(lambda: all(_decided(cluster, name) for name in names))
    return [devices for name in names if (devices := _devices(cluster, name))]


def _decided(cluster: Cluster, name: str) -> bool:
    found = cluster.read(f"{PODS}/{name}")
    conditions = found["status"].get("conditions") or ()
    pending = any("cannot allocate all claims" in one.get("message", "") for one in conditions)
    return bool(found["spec"].get("nodeName")) or pending


def _devices(cluster: Cluster, name: str) -> list[str]:
    """Return the devices of a scheduled pod's claims."""
    one = cluster.read(f"{PODS}/{name}")
    if not one["spec"].get("nodeName"):
        return []
    statuses = one["status"]["resourceClaimStatuses"]
    path = f"{DRA}/namespaces/default/resourceclaims"
    claims = [cluster.read(f"{path}/{status['resourceClaimName']}") for status in statuses]
    return [
        result["device"]
        for claim in claims
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]


def test_shares_fill_cards_and_the_next_one_waits(cluster: Cluster) -> None:
    """HAMi's published case: pods of 10000 MiB on cards of 32 GiB, three on each."""
    found = placed(cluster, pod(limits(gpu=1, gpumem=10000), annotations=SHARES), 13)
    assert len(found) == 12
    assert sorted(found) == sorted([[f"gpu-{n}-share"] for n in range(4)] * 3)


def test_a_mig_device_does_where_no_share_is_left(cluster: Cluster) -> None:
    amounts = limits(gpu=1, gpumem=10000)
    assert len(placed(cluster, pod(amounts, annotations=SHARES), 12)) == 12
    assert placed(cluster, pod(amounts), 2) == [["gpu-0-m0"]]


def test_memory_and_cores(cluster: Cluster) -> None:
    one = pod(limits(gpu=1, gpumem=5000, gpucores=30), annotations=SHARES)
    assert len(placed(cluster, one, 13)) == 12


def test_the_scheduler_reads_types_and_uuids(cluster: Cluster) -> None:
    def on(**wishes: str) -> list[list[str]]:
        named = {f"nvidia.com/{key.replace('_', '-')}": text for key, text in wishes.items()}
        return placed(cluster, pod(limits(gpu=1, gpumem=1000), annotations={**SHARES, **named}))

    assert on(use_gputype="a100,V100") == [["gpu-2-share"]]
    assert on(nouse_gputype="T4") == [["gpu-2-share"]]
    assert on(use_gputype="NVIDIA-Tesla T4") == [["gpu-0-share"]]
    assert on(use_gpuuuid="GPU-3, GPU-9") == [["gpu-3-share"]]
    assert on(nouse_gpuuuid="GPU-0,GPU-1,GPU-2") == [["gpu-3-share"]]
    assert on(use_gputype="H200") == []


def test_percentages_and_several_gpus(cluster: Cluster) -> None:
    half = pod(limits(gpu=2, gpumem_percentage=50, gpucores=30))
    found = placed(cluster, half, 5)
    assert len(found) == 4
    assert all(len(set(devices)) == 2 for devices in found)


def test_whole_cards_and_shares_exclude_each_other(cluster: Cluster) -> None:
    one = pod(limits(gpu=1, gpumem=1000), annotations=SHARES)
    assert placed(cluster, one) == [["gpu-0-share"]]
    whole = pod(limits(gpu=1, gpucores=100))
    assert sorted(placed(cluster, whole, 4)) == [["gpu-1"], ["gpu-2"], ["gpu-3"]]


def test_numa_bind(cluster: Cluster) -> None:
    """One GPU of the first node is taken, so that only the second node has two."""
    named = {"nvidia.com/numa-bind": "true"}
    taken = pod(limits(gpu=1, gpumem=30000))
    assert placed(cluster, taken) == [["gpu-0-share"]]
    shares = pod(limits(gpu=2, gpumem=5000), annotations={**SHARES, **named})
    assert placed(cluster, shares) == [["gpu-2-share", "gpu-3-share"]]
    assert placed(cluster, pod(limits(gpu=2), annotations=named)) == []


def test_numa_bind_of_whole_cards(cluster: Cluster) -> None:
    bound = pod(limits(gpu=2), annotations={"nvidia.com/numa-bind": "true"})
    one = pod(limits(gpu=1, gpumem=1000), annotations=SHARES)
    assert placed(cluster, one) == [["gpu-0-share"]]
    assert placed(cluster, bound, 2) == [["gpu-2", "gpu-3"]]


def test_mig_by_memory_is_the_smallest_that_does(cluster: Cluster) -> None:
    mig = {"nvidia.com/vgpu-mode": "mig"}
    small = pod(limits(gpu=1, gpumem=8000), annotations=mig)
    assert sorted(placed(cluster, small, 2)) == [["gpu-0-m1"], ["gpu-0-m2"]]
    assert placed(cluster, small) == [["gpu-0-m0"]]  # a larger one, as no small one is left
    assert placed(cluster, pod(limits(gpu=1, gpumem=20000), annotations=mig)) == []


def test_an_init_container_shares_its_claim(cluster: Cluster) -> None:
    share = limits(gpu=1, gpumem=20000)
    assert placed(cluster, pod(share, init=(share, share), annotations=SHARES)) == [["gpu-0-share"]]
    two = pod(share, share, annotations=SHARES)
    assert list(map(sorted, placed(cluster, two))) == [["gpu-1-share", "gpu-2-share"]]


WORKLOADS: list[tuple[str, str, dict[str, Any]]] = [
    ("apps/v1", "Deployment", {"replicas": 2}),
    (
        "apps/v1",
        "StatefulSet",
        {"replicas": 2, "podManagementPolicy": "Parallel", "serviceName": "x"},
    ),
    ("batch/v1", "Job", {"completions": 2, "parallelism": 2}),
]


@pytest.mark.parametrize(("version", "kind", "spec"), WORKLOADS)
def test_workloads_keep_their_pod_templates(
    cluster: Cluster, version: str, kind: str, spec: Json
) -> None:
    one = pod(limits(gpu=1, gpumem=3000), schedulerName="hami-scheduler")["spec"]
    one["restartPolicy"] = "Never" if kind == "Job" else "Always"
    labels = {"app": "sample"}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "sample"}}
    template = {"metadata": {"labels": labels}, "spec": one}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    path = f"/apis/{version}/namespaces/default/{kind.lower()}s"
    before = cluster.post(path, {**body, "spec": {**spec, **selector, "template": template}})
    try:
        eventually(
            lambda: [bool(one["spec"].get("nodeName")) for one in pods(cluster)] == [True, True]
        )
        named = {
            one["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] for one in pods(cluster)
        }
        assert named <= set(cluster.templates())
        assert len(named) == 1
        after = cluster.read(f"{path}/sample")
        assert after["spec"]["template"] == before["spec"]["template"]
    finally:
        _remove(cluster, path, {"suspend": True} if kind == "Job" else {"replicas": 0})


def _is_suspended(job: Json) -> bool:
    return any(item["type"] == "Suspended" for item in job["status"].get("conditions") or ())


def test_a_suspended_job_has_a_claim_once_it_is_resumed(cluster: Cluster) -> None:
    spec = {"suspend": True, "template": {"spec": pod(limits(gpu=1, gpumem=3000))["spec"]}}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    path = "/apis/batch/v1/namespaces/default/jobs"
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sample"}, "spec": spec}
    cluster.post(path, body)
    try:
        eventually(lambda: _is_suspended(cluster.read(f"{path}/sample")))
        assert pods(cluster) == []
        merge = "application/merge-patch+json"
        cluster.admin.ask(
            "resuming", "PATCH", f"{path}/sample", {"spec": {"suspend": False}}, kind=merge
        )
        eventually(lambda: [bool(item["spec"].get("nodeName")) for item in pods(cluster)] == [True])
        assert pods(cluster)[0]["spec"]["resourceClaims"]
    finally:
        _remove(cluster, path, {"suspend": True})


def _remove(cluster: Cluster, path: str, none: Json) -> None:
    """Remove a workload with what its controller has made; without a garbage collector nobody else does."""
    merge = "application/merge-patch+json"
    cluster.admin.ask("ending", "PATCH", f"{path}/sample", {"spec": none}, kind=merge)
    eventually(lambda: all("deletionTimestamp" in one["metadata"] for one in pods(cluster)))
    cluster.admin.ask(
        "removing", "DELETE", f"{path}/sample", query={"propagationPolicy": "Background"}
    )
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    for one in cluster.read(sets)["items"]:
        cluster.remove(f"{sets}/{one['metadata']['name']}")
