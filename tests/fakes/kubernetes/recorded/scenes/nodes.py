# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's own object, by its kubelet's access and by others'."""

from __future__ import annotations

from tests.fakes.kubernetes.recorded.steps import ADMIN, MERGE, PATCH, STRATEGIC
from tests.fakes.kubernetes.recorded.words import (
    KUBELET,
    NEIGHBOUR,
    NODE,
    OTHER,
    delete,
    get,
    made,
    node,
    patch,
    post,
    put,
    watch,
)

NODES = "/api/v1/nodes"
MINE, THEIRS = f"{NODES}/{NODE}", f"{NODES}/{OTHER}"
ONLY = {"fieldSelector": f"metadata.name={NODE}"}
META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METAS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def labels(**some: str | None) -> dict[str, object]:
    return {"metadata": {"labels": {key.replace("__", "/"): text for key, text in some.items()}}}


def condition(kind: str, status: str, **more: str) -> dict[str, object]:
    one = {"type": kind, "status": status, **more}
    return {"status": {"conditions": [one]}}


READ = [
    *made(node(NODE), node(OTHER)),
    get(KUBELET, MINE, until=200),
    get(KUBELET, THEIRS),
    get(KUBELET, f"{NODES}/none"),
    get(KUBELET, NODES, where=ONLY),
    get(KUBELET, NODES, where=ONLY, accept=METAS),
    get(KUBELET, MINE, accept=META),
    get(KUBELET, NODES),
    get(KUBELET, NODES, where={"fieldSelector": f"metadata.name={OTHER}"}),
    get(KUBELET, "/api/v1/secrets"),
    get(KUBELET, "/api/v1/pods"),
    get(KUBELET, "/api/v1/pods", where={"fieldSelector": f"spec.nodeName={NODE}"}),
    get(KUBELET, "/apis/resource.k8s.io/v1/deviceclasses"),
    get(ADMIN, NODES, accept=METAS),
    get(ADMIN, NODES, where={"labelSelector": "none"}),
    get(ADMIN, f"{NODES}/none"),
    get("nobody", MINE),
    get("stranger", MINE),
]
WRITTEN = [
    *made(node(NODE), node(OTHER)),
    patch(KUBELET, MINE, labels(**{"nvidia.com__gpu.count": "8"}), keep="seen", until=200),
    patch(KUBELET, MINE, labels(**{"nvidia.com__gpu.count": None, "b": "2"}), accept=META),
    patch(KUBELET, MINE, {"metadata": {"annotations": {"gpu.node/labels": "x"}}}),
    patch(KUBELET, MINE, labels(**{"node-restriction.kubernetes.io__x": "1"})),
    patch(KUBELET, MINE, labels(**{"example.kubernetes.io__x": "1", "a.k8s.io__y": "1"})),
    patch(KUBELET, MINE, labels(**{"feature.node.kubernetes.io__x": "1"})),
    patch(KUBELET, MINE, labels(**{"nvidia.com__x": "not valid!"})),
    patch(KUBELET, MINE, labels(**{"not valid!": "x"})),
    patch(KUBELET, MINE, {"metadata": {"resourceVersion": "1", "labels": {"c": "3"}}}),
    patch(ADMIN, MINE, {"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": True}}),
    patch(ADMIN, MINE, {"spec": {"unschedulable": True}}, "spec.unschedulable"),
    patch(ADMIN, MINE, {"spec": {"unschedulable": None}}, "spec.unschedulable"),
    patch(KUBELET, MINE, {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}),
    patch(KUBELET, THEIRS, labels(a="b")),
    patch(KUBELET, f"{NODES}/none", labels(a="b")),
    patch(ADMIN, f"{NODES}/none", labels(a="b")),
    patch(ADMIN, MINE, {"metadata": {"uid": "another"}}),
    patch(ADMIN, MINE, "{", kind=MERGE),
    patch(ADMIN, MINE, labels(a="b"), kind="application/json"),
    patch(ADMIN, MINE, [{"op": "add", "path": "/metadata/labels/d", "value": "4"}], kind=PATCH),
    patch(ADMIN, MINE, [{"op": "test", "path": "/metadata/labels/d", "value": "5"}], kind=PATCH),
    put(ADMIN, MINE, "seen", labels(e="5")),
    get(KUBELET, MINE),
    post(KUBELET, NODES, node(NODE)),
    post(KUBELET, NODES, node("node-3")),
    delete(KUBELET, THEIRS),
    delete(KUBELET, MINE),
    delete(ADMIN, THEIRS),
    delete(ADMIN, THEIRS),
]
SHOW = ("status.conditions",)
STATUS = [
    *made(node(NODE), node(OTHER)),
    patch(KUBELET, f"{MINE}/status", condition("Ready", "True", reason="a"), *SHOW, kind=STRATEGIC,
          until=200),
    patch(KUBELET, f"{MINE}/status", condition("GPUHealthy", "False", message="m"), *SHOW,
          kind=STRATEGIC),
    patch(KUBELET, f"{MINE}/status", condition("GPUHealthy", "True", reason="r"), *SHOW,
          kind=STRATEGIC),
    patch(KUBELET, f"{MINE}/status", {"status": {"conditions": [
        {"type": "GPUHealthy", "$patch": "delete"}]}}, *SHOW, kind=STRATEGIC),
    patch(ADMIN, f"{MINE}/status", {"status": {"capacity": {"nvidia.com/gpu": "8"}}},
          *SHOW, "status.capacity", "status.allocatable"),
    patch(KUBELET, f"{NODES}/{OTHER}/status", {"status": {}}, kind=STRATEGIC),
    patch(NEIGHBOUR, f"{MINE}/status", {"status": {}}, kind=STRATEGIC),
    patch("nobody", f"{MINE}/status", {"status": {}}, kind=STRATEGIC),
]  # fmt: skip
WATCHED = [
    *made(node(NODE), node(OTHER)),
    get(KUBELET, NODES, where=ONLY, keep="list", until=200),
    patch(ADMIN, MINE, labels(a="1")),
    patch(ADMIN, THEIRS, labels(a="2")),
    patch(ADMIN, MINE, labels(a="3")),
    watch(KUBELET, NODES, 2, where={**ONLY, "resourceVersion": "$list.metadata.resourceVersion"}),
    watch(KUBELET, NODES, 1, where=ONLY),
    watch(KUBELET, NODES, 1, where=ONLY, accept=META),
    watch(KUBELET, NODES, 0),
    delete(ADMIN, MINE),
    watch(ADMIN, NODES, 4, where={"resourceVersion": "$list.metadata.resourceVersion"}),
]
SCENES = {
    "nodes-read": READ,
    "nodes-written": WRITTEN,
    "nodes-status": STATUS,
    "nodes-watched": WATCHED,
}
