# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a pod fits on a node, found anew only where the node has changed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpu_plugin.cluster import quantity

from ..placement.claims import Claim
from ..placement.placer import Placed, Placer
from ..placement.reasons import Reason, merged, sentence
from ..placement.values import Devices, Use
from .rooms import Rooms
from .suits import unsuitable
from .values import Node, Shape

Key = tuple[Shape, tuple[Claim, ...]]


class Fits:
    """Tries pods on nodes. What did not fit is not tried again before the node has changed."""

    def __init__(self, placer: Placer, nodes: Sequence[Node], resources: Collection[str]) -> None:
        self._placer = placer
        self._rooms = Rooms(placer, nodes)
        self._resources = resources  # extended resources that DeviceClasses stand for
        self._unfit: dict[Key, dict[int, int]] = {}  # versions of nodes by their index
        self._unsuitable: dict[tuple[Shape, int], str] = {}
        self._reasons: dict[tuple[tuple[Claim, ...], Devices, Use], tuple[Reason, ...]] = {}
        self._known: dict[tuple[Key, frozenset[str]], tuple[tuple[str, int], ...]] = {}

    def unfit(self, shape: Shape, claims: tuple[Claim, ...]) -> dict[int, int]:
        """Return the nodes, by their index, that a pod does not fit on as long as they have this version."""
        return self._unfit.setdefault((shape, claims), {})

    def placed(
        self, shape: Shape, claims: tuple[Claim, ...], node: Node, index: int
    ) -> Placed | None:
        """Return what a node gives to a pod, None where it does not fit. Refused: see Placer."""
        unfit = self.unfit(shape, claims)
        if unfit.get(index) == node.version:
            return None
        found = None
        if (
            not self._rooms.without(claims, index)
            and not self._never(shape, node)
            and next(_short(shape, node, self._resources), None) is None
        ):
            found = self._placer.place(claims, node.devices, node.use)
        if found is None:
            unfit[index] = node.version
        return found

    def take(self, shape: Shape, node: Node, placed: Placed) -> None:
        """Let a pod run on a node."""
        node.use = placed.use
        node.used_cpu += shape.cpu
        node.used_memory += shape.memory
        for name, count in shape.extended.items():
            if node.extended.get(name):
                node.used_extended[name] = node.used_extended.get(name, 0) + count
        node.pods += 1
        node.version += 1

    def why(
        self,
        shape: Shape,
        rows: Sequence[tuple[int, Node, tuple[Claim, ...]]],
        only: frozenset[str],
    ) -> tuple[tuple[str, int], ...]:
        """Return why no node has room for a pod, with how many nodes say so. Nodes are with their index."""
        key = ((shape, rows[0][2]), only)
        if key not in self._known:
            found = [
                one
                for index, node, claims in rows
                for one in self._reason(shape, claims, node, index, only)
            ]
            self._known[key] = tuple((sentence(one), nodes) for one, nodes in merged(found))
        return self._known[key]

    def _reason(
        self, shape: Shape, claims: tuple[Claim, ...], node: Node, index: int, only: frozenset[str]
    ) -> tuple[Reason, ...]:
        if only and node.name not in only:
            return (Reason(f"a claim that it shares is on {', '.join(only)}"),)
        if never := self._never(shape, node):
            return (Reason(never),)
        if short := tuple(_short(shape, node, self._resources)):
            return short
        if full := self._rooms.reason(claims, index):
            return (full,)
        key = (claims, node.devices, node.use)
        if key not in self._reasons:
            self._reasons[key] = self._placer.why(*key)
        return self._reasons[key]

    def _never(self, shape: Shape, node: Node) -> str:
        if not (
            shape.node_name or shape.node_selector or shape.affinity is not None or node.taints
        ):
            return ""
        key = (shape, id(node))
        if key not in self._unsuitable:
            self._unsuitable[key] = unsuitable(shape, node)
        return self._unsuitable[key]


def _short(shape: Shape, node: Node, resources: Collection[str]) -> Iterator[Reason]:
    """Yield what a node has too little of, devices apart."""
    if node.pods >= node.most_pods:
        yield Reason(f"it has {node.most_pods} pods, which is the most")
    if node.cpu is not None and shape.cpu > node.cpu - node.used_cpu:
        yield Reason(f"cpu {quantity.text(shape.cpu)}", "cpu", node.cpu - node.used_cpu)
    if node.memory is not None and shape.memory > node.memory - node.used_memory:
        wanted = f"memory {quantity.text(shape.memory)} of the node"
        yield Reason(wanted, "memory", node.memory - node.used_memory)
    for name, count in shape.extended.items():
        has = node.extended.get(name, 0)
        if has:
            free = has - node.used_extended.get(name, 0)
            if count > free:
                yield Reason(f"{name} {count}", name, free)
        elif name not in resources:
            yield Reason(f"it has no {name}, and no DeviceClass stands for it")
