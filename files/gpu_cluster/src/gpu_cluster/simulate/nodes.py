# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes: what they have and what is in use of it, of a cluster's objects; and which pods may be on them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.quantity import Number, text

from ..placement import devices
from ..placement.claims import tainted, untolerated
from ..placement.devices import Devices, Use
from ..placement.reasons import Reason
from .pods import NATIVE, Shape, shape

Json = Mapping[str, Any]


@dataclass(eq=False)
class Node:
    """A node, and what is in use of it by pods. Of cpu, memory and pods that it does not name it has enough."""

    name: str
    devices: Devices
    use: Use = field(default_factory=Use)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    allocatable: Mapping[str, Number] = field(default_factory=dict)
    used: dict[str, Number] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return int(self.used.get("pods", 0))

    @property
    def load(self) -> float:
        """How full the node is: the mean of cpu and memory where they are known, else of pods."""
        known = [name for name in ("cpu", "memory") if self.allocatable.get(name)]
        names = known if len(known) == 2 else ["pods"]
        shares = [self.used.get(name, 0) / (self.allocatable[name] or 1) for name in names]
        return float(sum(shares)) / len(names)

    def take(self, pod: Shape) -> None:
        """Let a pod run here, its devices apart."""
        for name, amount in pod.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def lacks(self, pod: Shape, resources: Collection[str]) -> Iterator[Reason]:
        """Yield what keeps a pod away, devices apart; ``resources`` are those that DeviceClasses stand for."""
        if never := unsuitable(pod, self):
            yield Reason(never)
            return
        for name, amount in pod.requests.items():
            has, native = self.allocatable.get(name), name in NATIVE
            if has is None if native else not has:
                if not native and name not in resources:
                    yield Reason(f"it has no {name}, and no DeviceClass stands for it")
            elif amount > (free := (has or 0) - self.used.get(name, 0)):
                if name == "pods":
                    yield Reason(f"it has {text(has or 0)} pods, which is the most")
                else:
                    of = " of the node" if name == "memory" else ""
                    yield Reason(f"{name} {text(amount)}{of}", name, free)


def unsuitable(pod: Shape, node: Node) -> str:
    """Return why a pod may never be on a node, an empty text where it may."""
    if pod.node_name and pod.node_name != node.name:
        return f"it is not the node {pod.node_name}"
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return f"nodeSelector {key}={value} does not match"
    if pod.affinity is not None and not any(_term(one, node) for one in pod.affinity):
        return "its node affinity does not match"
    taint = untolerated(node.taints, pod.tolerations)
    return f"the taint {tainted(taint)} is not tolerated" if taint else ""


def _term(term: Json, node: Node) -> bool:
    named = {"metadata.name": node.name}
    asked = [(one, node.labels) for one in term.get("matchExpressions") or ()]
    asked += [(one, named) for one in term.get("matchFields") or ()]
    return bool(asked) and all(_matches(*one) for one in asked)


def _matches(requirement: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    values = [str(one) for one in requirement.get("values") or ()]
    operator = requirement.get("operator")
    if operator in ("In", "NotIn"):
        return (value in values) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    try:
        number, other = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > other if operator == "Gt" else operator == "Lt" and number < other


def ended(pod: Json) -> bool:
    """Return whether a pod needs nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def placed(pod: Json) -> str:
    """Return the node that a pod is on, empty where it is on none."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def read(objects: Sequence[Json]) -> list[Node]:
    """Return the nodes of objects, with what their pods and claims have. NodeError: a value can't be read."""
    published = devices.by_node(one for one in objects if one["kind"] == "ResourceSlice")
    named = {str(one["metadata"]["name"]): one for one in objects if one["kind"] == "Node"}
    found = {
        name: made_of(name, named.get(name, {}), published.get(name, []), f"Node {name}: ")
        for name in {**named, **dict.fromkeys(filter(None, published))}
    }
    had: dict[tuple[str, str], list[Json]] = {}
    for one in objects:
        if one["kind"] == "ResourceClaim":
            for result in devices.results(one):
                had.setdefault((str(result["driver"]), str(result["pool"])), []).append(result)
        elif one["kind"] == "Pod" and placed(one) in found and not ended(one):
            try:
                found[placed(one)].take(shape(one))
            except NodeError as error:
                raise NodeError(f"Pod {one['metadata'].get('name')}: {error}") from error
    for node in found.values():
        pools = [had.get((pool.driver, pool.name), ()) for pool in node.devices.pools]
        node.use = devices.allocated((one for of in pools for one in of), node.devices)
    return list(found.values())


def made_of(name: str, raw: Json, slices: Sequence[Json], where: str) -> Node:
    """Return a node by its object and its slices. InputError names ``where`` and the resource."""
    spec, labels = raw.get("spec") or {}, (raw.get("metadata") or {}).get("labels") or {}
    has = devices.amounts((raw.get("status") or {}).get("allocatable"), where)
    taints = tuple(spec.get("taints") or ())
    if spec.get("unschedulable"):
        taints += ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},)
    return Node(
        name,
        devices.read(slices),
        labels={str(key): str(value) for key, value in labels.items()},
        taints=taints,
        allocatable={"pods": 110, **has},
    )
