# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods, nodes, and what becomes of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_plugin.cluster.quantity import Number

from ..placement.claims import Claim
from ..placement.values import Devices, Given, Use

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ClaimRef:
    """A claim that a pod names: its own, made of a template, or one that it may share with others."""

    name: str
    template: str = ""
    claim: str = ""


@dataclass(frozen=True, eq=False)
class Shape:
    """What the scheduler looks at of a pod, which replicas have in common.

    ``cpu`` is in cores, ``memory`` in bytes; ``extended`` are extended resources by name, and ``asking``
    the same by container, in their order, with whether each is an init container that ends.
    """

    cpu: Number = 0
    memory: Number = 0
    extended: Mapping[str, int] = field(default_factory=dict)
    asking: tuple[tuple[bool, Mapping[str, int]], ...] = ()
    claims: tuple[ClaimRef, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Sequence[Json] | None = None
    tolerations: tuple[Json, ...] = ()
    node_name: str = ""
    ignored: tuple[str, ...] = ()


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


@dataclass(eq=False)
class Node:
    """A node and what is in use of it. Capacities that are not known are None: then they do not matter."""

    name: str
    devices: Devices
    use: Use = field(default_factory=Use)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    cpu: Number | None = None
    memory: Number | None = None
    most_pods: int = 110
    extended: Mapping[str, int] = field(default_factory=dict)
    used_cpu: Number = 0
    used_memory: Number = 0
    used_extended: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    version: int = 0

    @property
    def load(self) -> float:
        """How full the node is: the mean of cpu and memory where they are known, else of pods."""
        if not self.cpu or not self.memory:
            return self.pods / self.most_pods
        return float(self.used_cpu / self.cpu + self.used_memory / self.memory) / 2


@dataclass
class SharedClaim:
    """A claim that pods name, and the node that it is allocated on."""

    claim: Claim | None
    node: str = ""
    users: int = 0


@dataclass(frozen=True)
class Outcome:
    """What becomes of a pod: its node and devices, or why it has none, with how many nodes say so."""

    pod: Pod
    node: str = ""
    given: tuple[Given, ...] = ()
    devices: Devices | None = None
    why: tuple[tuple[str, int], ...] = ()
