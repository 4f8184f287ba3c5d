# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods that Deployments, Jobs and the like make. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..._shared._core.errors import InputError, NodeError

Json = Mapping[str, Any]
MOST_PODS: Final = 200_000

# How many pods a workload has at once, and how they are named after it.
_Replicas = Callable[[Json], int]


def _count(spec: Json, key: str, default: int) -> int:
    value = spec.get(key, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PODS:
        raise InputError.of(f"spec.{key}", value, f"a number from 0 to {MOST_PODS}")
    return value


def _job(spec: Json) -> int:
    parallel = _count(spec, "parallelism", 1)
    return min(parallel, _count(spec, "completions", parallel))


REPLICAS: Final[Mapping[str, _Replicas]] = {
    "Deployment": lambda spec: _count(spec, "replicas", 1),
    "ReplicaSet": lambda spec: _count(spec, "replicas", 1),
    "ReplicationController": lambda spec: _count(spec, "replicas", 1),
    "StatefulSet": lambda spec: _count(spec, "replicas", 1),
    "Job": _job,
}
KINDS: Final = frozenset({"Pod", "CronJob", "DaemonSet", *REPLICAS})


def pods(workload: Json, nodes: int = 0) -> Iterator[tuple[str, Json]]:
    """Yield the names and the one manifest of a workload's pods; of a DaemonSet one for each node."""
    meta, kind = workload.get("metadata") or {}, str(workload["kind"])
    name = str(meta.get("name") or meta.get("generateName") or kind.lower())
    if kind == "Pod":
        yield name, workload
        return
    spec = workload.get("spec") or {}
    if kind == "CronJob":
        spec, kind = (spec.get("jobTemplate") or {}).get("spec") or {}, "Job"
    template = spec.get("template")
    if not isinstance(template, Mapping):
        raise NodeError(f"{workload['kind']} {name}: spec.template is missing")
    made = {
        "kind": "Pod",
        "metadata": template.get("metadata") or {},
        "spec": template.get("spec") or {},
    }
    count = nodes if kind == "DaemonSet" else REPLICAS[kind](spec)
    first = _count(spec.get("ordinals") or {}, "start", 0)
    for number in range(first, first + count):
        yield f"{name}-{number}", made
