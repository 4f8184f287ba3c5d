# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""ResourceSlices by the kubelet's access: its node's own, with versions, preconditions and a watch."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.steps import ADMIN, Json, Step
from tests.fakes.kubernetes.recorded.words import (
    KUBELET,
    NEIGHBOUR,
    NODE,
    OTHER,
    SLICES,
    delete,
    get,
    made,
    named,
    node,
    patch,
    post,
    put,
    watch,
    without,
)

OURS = {"fieldSelector": f"spec.nodeName={NODE},spec.driver=gpu.node"}


def slice_of(name: str, on: str = NODE, driver: str = "gpu.node", **more: Any) -> Json:
    """Return a slice with one device, whose pool is the node's."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": on, "pool": pool, "devices": [{"name": "gpu-0"}], **more}
    return named("ResourceSlice", name, "resource.k8s.io/v1", spec=spec)


def owned(name: str) -> Json:
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "$node.metadata.uid"}
    body = slice_of(name)
    body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return body


def only_if(of: str, **other: str) -> Json:
    same = {key: f"${of}.metadata.{key}" for key in ("uid", "resourceVersion")}
    kind = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return {**kind, "preconditions": {**same, **other}}


def generation(number: int) -> Json:
    return {"spec": {"pool": {"generation": number}}}


TAINT = {"key": "gpu.node/unhealthy", "effect": "NoSchedule", "value": "lost"}
WRITTEN = [
    *made(node(NODE), node(OTHER)),
    get(KUBELET, f"/api/v1/nodes/{NODE}", keep="node", until=200),
    get(KUBELET, SLICES, where=OURS, keep="list"),
    post(KUBELET, SLICES, owned("one"), "spec", keep="one"),
    post(KUBELET, SLICES, owned("one")),
    post(KUBELET, SLICES, slice_of("two", OTHER)),
    post(KUBELET, SLICES, slice_of("two", driver="gpu.example.com"), "spec"),
    post(KUBELET, SLICES, named("ResourceSlice", "three", "resource.k8s.io/v1", spec={})),
    put(KUBELET, f"{SLICES}/one", "one", generation(2), "spec", keep="newer", until=200),
    put(KUBELET, f"{SLICES}/one", "one", generation(3)),
    put(KUBELET, f"{SLICES}/one", "newer", {"spec": {"nodeName": OTHER}}),
    put(KUBELET, f"{SLICES}/one", "newer", {"metadata": {"resourceVersion": None}}),
    patch(KUBELET, f"{SLICES}/one", {"metadata": {"labels": {"a": "b"}}}, keep="newest"),
    put(KUBELET, f"{SLICES}/one", "newest", {"spec": {"devices": [
        {"name": "gpu-0", "taints": [TAINT]}]}}, "spec", keep="tainted"),
    get(KUBELET, SLICES, "spec.pool", where=OURS),
    get(KUBELET, SLICES, where={"fieldSelector": f"spec.nodeName={OTHER}"}),
    get(KUBELET, SLICES),
    get(KUBELET, SLICES, where={"fieldSelector": "spec.pool.name=x"}),
    get(ADMIN, SLICES, where={"fieldSelector": "spec.pool.name=x"}),
    get(KUBELET, f"{SLICES}/none"),
    delete(KUBELET, f"{SLICES}/one", only_if("one")),
    delete(KUBELET, f"{SLICES}/one", only_if("tainted", uid="another")),
    delete(KUBELET, f"{SLICES}/one", only_if("tainted"), keep="deleted"),
    delete(KUBELET, f"{SLICES}/one", only_if("tainted"), until=403),
    put(KUBELET, f"{SLICES}/one", "tainted", {}),
    put(ADMIN, f"{SLICES}/one", "tainted", {}),
    delete(ADMIN, f"{SLICES}/one"),
    watch(KUBELET, SLICES, 5, where={**OURS, "resourceVersion": "$list.metadata.resourceVersion"}),
    delete(KUBELET, SLICES, where={"fieldSelector": f"spec.nodeName={NODE}"}),
    delete(KUBELET, SLICES),
    get(ADMIN, SLICES),
    watch(KUBELET, SLICES, 0),
    watch(KUBELET, SLICES, 0, where={"fieldSelector": f"spec.nodeName={OTHER}"}),
]  # fmt: skip
OF_OTHERS = [
    *made(node(NODE), node(OTHER), slice_of("theirs", OTHER), slice_of("mine")),
    get(NEIGHBOUR, f"{SLICES}/theirs", keep="theirs", until=200),
    get(KUBELET, f"{SLICES}/mine", until=200),
    get(KUBELET, f"{SLICES}/theirs"),
    delete(KUBELET, f"{SLICES}/theirs"),
    put(KUBELET, f"{SLICES}/theirs", "theirs", {}),
    patch(KUBELET, f"{SLICES}/theirs", {"metadata": {"labels": {"a": "b"}}}),
    get("nobody", SLICES),
]


def parts(name: str) -> list[Json]:
    """Return a node's counters and its devices, as two slices with all that our driver publishes."""
    memory = {"memory": {"value": "80Gi"}}
    policy = {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}
    share = {
        "name": "gpu-0-share",
        "allowMultipleAllocations": True,
        "attributes": {"type": {"string": "share"}},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": memory}],
        "taints": [TAINT],
    }
    counters = slice_of(f"{name}-counters", sharedCounters=[{"name": "gpu-0", "counters": memory}])
    del counters["spec"]["devices"]
    made = [counters, slice_of(f"{name}-devices", devices=[share])]
    for one in made:
        one["spec"]["pool"]["resourceSliceCount"] = 2
    return made


def gate_off(gate: str) -> list[Step]:
    some = [post(KUBELET, SLICES, one, "spec") for one in parts("a")]
    off = [without(gate)] if gate else []
    return [*off, *made(node(NODE)), *some, get(KUBELET, SLICES, "spec", where=OURS)]


SCENES = {"slices-written": WRITTEN, "slices-of-others": OF_OTHERS, "slices-kept": gate_off("")}
SCENES |= {
    f"slices-without-{gate}": gate_off(gate)
    for gate in ("DRAPartitionableDevices", "DRAConsumableCapacity", "DRADeviceTaints")
}
