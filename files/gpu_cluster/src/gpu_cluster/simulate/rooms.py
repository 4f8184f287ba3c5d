# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nodes have left for requests of one family, kept as long as a node stays as it is. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gpu_plugin.cluster.quantity import text

from ..placement.claims import Claim, Request
from ..placement.headroom import Headroom, family, lacking, simple
from ..placement.placer import Placer
from ..placement.reasons import Reason
from .values import Node


class Rooms:
    """The headroom of nodes by family of requests."""

    def __init__(self, placer: Placer, nodes: Sequence[Node]) -> None:
        self._placer = placer
        self._nodes = nodes
        self._known: dict[Hashable, list[tuple[int, Headroom] | None]] = {}

    def without(self, claims: tuple[Claim, ...], index: int) -> bool:
        """Return whether a node has certainly no room for claims. Refused: they can't be met anywhere."""
        request = simple(claims)
        return request is not None and lacking(request, self._room(request, index)) is not None

    def reason(self, claims: tuple[Claim, ...], index: int) -> Reason | None:
        """Return which capacity a node has too little of, None where that is not all there is to say."""
        request = simple(claims)
        if request is None:
            return None
        room = self._room(request, index)
        name = lacking(request, room)
        amount = request.capacity.get(name or "", 0)
        if not name or amount > room.largest.get(name, -1) or request.count != 1:
            return None
        return Reason(f"{name} {text(amount)}", name, room.free.get(name, 0), room.devices)

    def _room(self, request: Request, index: int) -> Headroom:
        key = family(request)
        if key not in self._known:
            self._known[key] = [None] * len(self._nodes)
        rooms, node = self._known[key], self._nodes[index]
        known = rooms[index]
        if known is None or known[0] != node.version:
            known = (node.version, self._placer.headroom(request, node.devices, node.use))
            rooms[index] = known
        return known[1]
