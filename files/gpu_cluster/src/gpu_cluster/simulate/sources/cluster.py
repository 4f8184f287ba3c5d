# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes, claims and pods of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.cluster import quantity
from gpu_plugin.cluster.access import Access

from ...lists import items
from ...placement import slices
from ...placement.allocated import use_of
from ..values import Node
from .needs import shape

Json = Mapping[str, Any]
PAGE: Final = 500
RESOURCE: Final = "/apis/resource.k8s.io/v1"
PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "ResourceSlice": f"{RESOURCE}/resourceslices",
    "ResourceClaim": f"{RESOURCE}/resourceclaims",
    "ResourceClaimTemplate": f"{RESOURCE}/resourceclaimtemplates",
    "DeviceClass": f"{RESOURCE}/deviceclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
RIGHTS: Final = "allow this user to list nodes, pods, priorityclasses and what resource.k8s.io has"
ENDED: Final = ("Succeeded", "Failed")


def fetch(access: Access) -> list[Json]:
    """Return what the simulation needs of a cluster. ApiError: it can't be read."""
    return [one for kind in PATHS for one in _listed(access, kind)]


def _listed(access: Access, kind: str) -> Iterator[Json]:
    for one in items(access, f"listing {kind} objects", PATHS[kind], page=PAGE, rights=RIGHTS):
        yield {**one, "kind": kind}


def nodes(objects: Iterable[Json]) -> list[Node]:
    """Return the nodes of objects, with what their pods and claims have. NodeError: a value can't be read."""
    kinds: dict[str, list[Json]] = {}
    for one in objects:
        kinds.setdefault(str(one["kind"]), []).append(one)
    published = slices.by_node(kinds.get("ResourceSlice", ()))
    pods: dict[str, list[Json]] = {}
    for one in kinds.get("Pod", ()):
        if placed(one) and not ended(one):
            pods.setdefault(str(one["spec"]["nodeName"]), []).append(one)
    named = {str(one["metadata"]["name"]): one for one in kinds.get("Node", ())}
    bare = {name: {"metadata": {"name": name}} for name in published if name and name not in named}
    held = _by_pool(kinds.get("ResourceClaim", ()))
    return [
        _node(one, published.get(name, []), held, pods.get(name, []))
        for name, one in {**named, **bare}.items()
    ]


def placed(pod: Json) -> bool:
    """Return whether a pod is on a node."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def ended(pod: Json) -> bool:
    """Return whether a pod needs nothing any more."""
    return (pod.get("status") or {}).get("phase") in ENDED


def _by_pool(claims: Iterable[Json]) -> dict[tuple[str, str], list[Json]]:
    """Return the claims that have devices of each pool of a driver."""
    found: dict[tuple[str, str], list[Json]] = {}
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        for pool in {(str(one["driver"]), str(one["pool"])) for one in results}:
            found.setdefault(pool, []).append(claim)
    return found


def _node(
    raw: Json, published: list[Json], held: Mapping[tuple[str, str], list[Json]], pods: list[Json]
) -> Node:
    meta, spec = raw["metadata"], raw.get("spec") or {}
    name = str(meta["name"])
    allocatable = (raw.get("status") or {}).get("allocatable") or {}
    amounts = {
        str(key): quantity.of(value, f"Node {name}: {key}") for key, value in allocatable.items()
    }
    devices = slices.devices(published)
    claims = {
        id(one): one for pool in devices.pools for one in held.get((pool.driver, pool.name), ())
    }.values()
    taints = tuple(spec.get("taints") or ())
    if spec.get("unschedulable"):
        taints = (*taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    node = Node(
        name,
        devices,
        use_of(claims, devices),
        {str(key): str(value) for key, value in (meta.get("labels") or {}).items()},
        taints,
        amounts.get("cpu"),
        amounts.get("memory"),
        int(amounts.get("pods", 110)),
        {key: int(value) for key, value in amounts.items() if "/" in key},
    )
    for pod in pods:
        _count(node, pod)
    return node


def _count(node: Node, pod: Json) -> None:
    try:
        wanted = shape(pod)
    except NodeError as error:
        raise NodeError(f"Pod {pod['metadata'].get('name')}: {error}") from error
    node.pods += 1
    node.used_cpu += wanted.cpu
    node.used_memory += wanted.memory
    for name, count in wanted.extended.items():
        if node.extended.get(name):
            node.used_extended[name] = node.used_extended.get(name, 0) + count
