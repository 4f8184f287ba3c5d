# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods that Deployments, Jobs and the like make. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError, NodeError

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


def manifest(workload: Json) -> Json:
    """Return the manifest of a workload's pods. NodeError: it has none."""
    if workload["kind"] == "Pod":
        return workload
    template = _spec(workload).get("template")
    if not isinstance(template, Mapping):
        name = (workload.get("metadata") or {}).get("name")
        raise NodeError(f"{workload['kind']} {name}: spec.template is missing")
    return {
        "kind": "Pod",
        "metadata": template.get("metadata") or {},
        "spec": template.get("spec") or {},
    }


def names(workload: Json) -> Iterator[str]:
    """Yield the names of a workload's pods; a DaemonSet has none of its own."""
    meta, kind = workload.get("metadata") or {}, str(workload["kind"])
    name = str(meta.get("name") or meta.get("generateName") or kind.lower())
    if kind == "Pod":
        yield name
        return
    spec = _spec(workload)
    first = _count(spec.get("ordinals") or {}, "start", 0)
    for number in range(REPLICAS["Job" if kind == "CronJob" else kind](spec)):
        yield f"{name}-{first + number}"


def _spec(workload: Json) -> Json:
    spec = workload.get("spec") or {}
    if workload["kind"] == "CronJob":
        return (spec.get("jobTemplate") or {}).get("spec") or {}
    return spec
