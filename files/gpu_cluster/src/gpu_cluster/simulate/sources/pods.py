# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods of manifests, and what else manifests bring along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from gpu_plugin._shared._base.errors import NodeError

from ..cluster_state import Claims, State, add_claims
from ..suits import unsuitable
from ..values import Pod, Shape
from . import needs, workloads

Json = Mapping[str, Any]
Templates = Iterable[tuple[str, Json]]
Mutate = Callable[[Json, str], tuple[Json, Templates]]
CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_UNUSED: Final = Shape()


def add(state: State, objects: Iterable[Json]) -> None:
    """Add DeviceClasses and templates of claims; of two with one name the later one stands."""
    for one in objects:
        meta = one.get("metadata") or {}
        key = (str(meta.get("namespace") or "default"), str(meta.get("name")))
        if one["kind"] == "DeviceClass":
            state.classes[key[1]] = one
        elif one["kind"] == "ResourceClaimTemplate":
            state.templates[key] = one


def add_shared(state: State, objects: Iterable[Json], claims: Claims) -> None:
    """Add ResourceClaims, once the classes are known."""
    add_claims(state, (one for one in objects if one["kind"] == "ResourceClaim"), claims)


def read(
    objects: Iterable[Json], state: State, mutate: Mutate, priorities: Mapping[str, int]
) -> list[Pod]:
    """Return the pods of objects in their order; templates that are made for them are added."""
    return [
        pod
        for one in objects
        if one["kind"] in workloads.KINDS
        for pod in _pods(one, state, mutate, priorities)
    ]


def priorities(objects: Iterable[Json]) -> dict[str, int]:
    """Return the values of PriorityClasses."""
    found = {
        str(one["metadata"]["name"]): int(one.get("value") or 0)
        for one in objects
        if one["kind"] == "PriorityClass"
    }
    return {**CLASSES, **found}


def _pods(
    workload: Json, state: State, mutate: Mutate, priorities: Mapping[str, int]
) -> Iterator[Pod]:
    meta = workload.get("metadata") or {}
    namespace = str(meta.get("namespace") or "default")
    owner = f"{workload['kind']}/{meta.get('name') or meta.get('generateName') or ''}"
    manifest = workloads.manifest(workload)
    shape, problem, priority = _UNUSED, "", 0
    try:
        manifest, made = mutate(manifest, owner)
        state.templates.update({(namespace, name): one for name, one in made})
        shape, priority = needs.shape(manifest), _priority(manifest, priorities)
    except NodeError as error:
        problem = str(error)
    state.warnings += [f"{owner}: {field} is not considered" for field in shape.ignored]
    if workload["kind"] == "DaemonSet":
        each = [
            (one.name, _on(shape, one.name)) for one in state.nodes if not unsuitable(shape, one)
        ]
    else:
        each = [(name, shape) for name in workloads.names(workload)]
    prefix = f"{meta.get('name')}-" if workload["kind"] == "DaemonSet" else ""
    for name, one in each:
        yield Pod(namespace, f"{prefix}{name}", owner, one, priority, problem)


def _on(shape: Shape, node: str) -> Shape:
    """Return the shape of a DaemonSet's pod, which is for one node."""
    return Shape(**{**vars(shape), "node_name": node})


def _priority(manifest: Json, priorities: Mapping[str, int]) -> int:
    spec = manifest.get("spec") or {}
    if isinstance(spec.get("priority"), int):
        return int(spec["priority"])
    name = spec.get("priorityClassName")
    if not name:
        return 0
    if name not in priorities:
        raise NodeError(f"the PriorityClass {name} does not exist")
    return priorities[str(name)]
