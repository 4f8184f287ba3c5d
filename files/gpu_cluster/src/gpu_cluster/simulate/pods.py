# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods of manifests, and what each needs as the scheduler counts it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin.model import quantity
from gpu_plugin.model.quantity import Number

from ..placement.devices import amounts

Json = Mapping[str, Any]
MOST_PODS: Final = 200_000
REPLICATED: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
KINDS: Final = ("Pod", "Job", "CronJob", "DaemonSet", *REPLICATED)
SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, eq=False)
class Shape:
    """What the scheduler looks at of a pod, which replicas have in common.

    ``requests`` are of cpu (cores), memory (bytes), pods (1) and extended resources by name, ``asking`` the extended
    ones by container, in their order, with whether each is an init container that ends, ``claims`` are as JSON.
    """

    requests: Mapping[str, Number] = field(default_factory=lambda: {"pods": 1})
    asking: tuple[tuple[bool, Mapping[str, int]], ...] = ()
    claims: tuple[Json, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Sequence[Json] | None = None
    tolerations: tuple[Json, ...] = ()
    node_name: str = ""

    @property
    def extended(self) -> list[str]:
        """The names of the extended resources."""
        return [name for name in self.requests if name not in NATIVE]


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod. ``owner`` is what it comes from, such as Deployment/web; ``problem`` is why it can't be at all."""

    namespace: str
    name: str
    owner: str
    shape: Shape
    priority: int = 0
    problem: str = ""

    @property
    def full_name(self) -> str:
        """The name with the namespace."""
        return f"{self.namespace}/{self.name}"


def pods(
    workload: Json,
    mutate: Callable[[Json, str, str], Json],
    nodes: Callable[[Shape], Iterable[str]],
    priorities: Mapping[str, int],
    warnings: list[str],
) -> Iterator[Pod]:
    """Yield the pods of a workload: a manifest is first changed as the webhook does (``mutate``).

    ``nodes`` are those that a DaemonSet has pods on. NodeError: there is no template, or no number of replicas.
    """
    meta, kind = workload.get("metadata") or {}, str(workload["kind"])
    name = str(meta.get("name") or meta.get("generateName") or "")
    namespace, owner = str(meta.get("namespace") or "default"), f"{kind}/{name}"
    pod, problem, priority, known = manifest(workload), "", 0, Shape()
    try:
        pod = mutate(pod, namespace, owner)
        known, priority = shape(pod), _priority(pod.get("spec") or {}, priorities)
        warnings += [f"{owner}: {field} is not considered" for field in ignored(pod["spec"])]
    except NodeError as error:
        problem = str(error)
    if kind == "DaemonSet":
        for node in nodes(known):
            on = replace(known, node_name=node)
            yield Pod(namespace, f"{name}-{node}", owner, on, priority, problem)
        return
    for each in names(workload):
        yield Pod(namespace, each, owner, known, priority, problem)


def _priority(spec: Json, priorities: Mapping[str, int]) -> int:
    name, value = spec.get("priorityClassName"), spec.get("priority")
    if isinstance(value, int) or not name:
        return int(value or 0)
    if name not in priorities:
        raise NodeError(f"the PriorityClass {name} does not exist")
    return priorities[str(name)]


def manifest(workload: Json) -> Json:
    """Return the manifest of a workload's pods. NodeError: it has none."""
    if workload["kind"] == "Pod":
        return workload
    template = _spec(workload).get("template")
    if not isinstance(template, Mapping):
        name = (workload.get("metadata") or {}).get("name")
        raise NodeError(f"{workload['kind']} {name}: spec.template is missing")
    return {"kind": "Pod", **{key: template.get(key) or {} for key in ("metadata", "spec")}}


def names(workload: Json) -> Iterator[str]:
    """Yield the names of a workload's pods; a DaemonSet has none of its own."""
    meta, kind, spec = workload.get("metadata") or {}, str(workload["kind"]), _spec(workload)
    name = str(meta.get("name") or meta.get("generateName") or kind.lower())
    if kind == "Pod":
        yield name
        return
    if kind in REPLICATED:
        count = _count(spec, "replicas", 1)
    else:
        count = _count(spec, "parallelism", 1)
        count = min(count, _count(spec, "completions", count))
    first = _count(spec.get("ordinals") or {}, "start", 0)
    for number in range(first, first + count):
        yield f"{name}-{number}"


def _spec(workload: Json) -> Json:
    spec = workload.get("spec") or {}
    if workload["kind"] == "CronJob":
        return (spec.get("jobTemplate") or {}).get("spec") or {}
    return spec


def _count(spec: Json, key: str, default: int) -> int:
    value = spec.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PODS:
        raise InputError.of(f"spec.{key}", value, f"a number from 0 to {MOST_PODS}")
    return value


def shape(pod: Json) -> Shape:
    """Return what is looked at of a pod's manifest. NodeError: a value can't be."""
    spec = pod.get("spec") or {}
    asked = [(ends, _requests(one)) for ends, one in _containers(spec)]
    if not spec.get("containers"):
        raise NodeError("spec.containers: there is none")
    total = _total(asked, amounts(spec.get("overhead"), "spec.overhead."))
    extended = {name: count for name, count in _extended(total).items() if count}
    requests = {name: total[name] for name in ("cpu", "memory") if name in total}
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return Shape(
        {"pods": 1} | requests | extended,
        tuple((ends, _extended(one)) for ends, one in asked),
        tuple(spec.get("resourceClaims") or ()),
        {str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        (required.get("nodeSelectorTerms") or ()) if required else None,
        tuple(spec.get("tolerations") or ()),
        str(spec.get("nodeName") or ""),
    )


def _containers(spec: Json) -> Iterator[tuple[bool, Json]]:
    """Yield the containers, and whether each is an init container that ends before others start."""
    for one in spec.get("initContainers") or ():
        yield one.get("restartPolicy") != "Always", one
    for one in spec.get("containers") or ():
        yield False, one


def _requests(container: Json) -> dict[str, Number]:
    """Return requests; a limit without a request is one."""
    resources = container.get("resources") or {}
    named = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return amounts(named, f"container {container.get('name', '')}: resources.")


def _total(asked: Iterable[tuple[bool, Mapping[str, Number]]], overhead: Json) -> dict[str, Number]:
    """Return what the pod needs at its most: init containers one by one, beside the sidecars before them."""
    running: dict[str, Number] = {}
    most: dict[str, Number] = {}
    for ends, requests in asked:
        for name, value in requests.items():
            beside = running.get(name, 0) + value
            most[name] = max(most.get(name, 0), beside)
            if not ends:
                running[name] = beside
    return {name: most.get(name, 0) + overhead.get(name, 0) for name in {**most, **overhead}}


def _extended(requests: Mapping[str, Number]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in requests.items():
        if name not in NATIVE and not name.startswith(("hugepages-", "attachable-volumes-")):
            if not isinstance(value, int) or value < 0:
                raise NodeError(f"resources.{name}: {quantity.text(value)} is not a whole number")
            found[name] = value
    return found


def ignored(spec: Json) -> Iterator[str]:
    """Yield the fields that matter to the scheduler and are not considered here."""
    affinity = spec.get("affinity") or {}
    yield from (
        f"affinity.{key}" for key in ("podAffinity", "podAntiAffinity") if affinity.get(key)
    )
    spread = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spread):
        yield "topologySpreadConstraints"
    volumes = spec.get("volumes") or ()
    if any(one.get("persistentVolumeClaim") or one.get("ephemeral") for one in volumes):
        yield "volumes"
    ports = (port for _ends, one in _containers(spec) for port in one.get("ports") or ())
    if any(one.get("hostPort") for one in ports):
        yield "hostPort"
    if spec.get("schedulingGates"):
        yield "schedulingGates"
