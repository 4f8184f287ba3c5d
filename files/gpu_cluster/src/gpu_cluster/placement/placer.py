# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims placed on nodes, where equal claims on nodes with equal devices in equal use are placed once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version

from .candidates import Candidates, Refused
from .cel import Selector
from .claims import Claim, Request
from .headroom import Headroom, headroom
from .reasons import Reason, reasons
from .search import search
from .values import Devices, Given, Pool, Use, added


@dataclass(frozen=True)
class Placed:
    """What the claims of a pod get on a node, and what is in use there then."""

    given: tuple[Given, ...]
    use: Use


class Placer:
    """Places claims as the allocator of a version of Kubernetes would; it changes nothing.

    ``broken`` is a pool for which no node gives all of its devices.
    """

    def __init__(
        self,
        classes: Mapping[str, tuple[Selector, ...]],
        broken: Pool | None = None,
        version: Version = RECOMMENDED,
    ) -> None:
        self._candidates = Candidates(classes, broken)
        self._version = version
        self._known: dict[tuple[tuple[Claim, ...], Devices, Use], Placed | None] = {}

    def place(self, claims: tuple[Claim, ...], devices: Devices, use: Use) -> Placed | None:
        """Return what a node gives to the claims of a pod, None where it can't give it now.

        Refused: Kubernetes looks at no other node either. Claims are the same where they are the same objects.
        """
        key = (claims, devices, use)
        if key not in self._known:
            given = search(claims, devices, use, self._candidates, self._version)
            self._known[key] = None if given is None else Placed(given, added(use, given, devices))
        return self._known[key]

    def headroom(self, request: Request, devices: Devices, use: Use) -> Headroom:
        """Return what a node has left for requests such as this one. Refused: its class does not exist."""
        self._candidates.check(request)
        return headroom(request, devices, use, self._candidates)

    def why(self, claims: tuple[Claim, ...], devices: Devices, use: Use) -> tuple[Reason, ...]:
        """Return why a node gives nothing to the claims of a pod."""
        try:
            return reasons(claims, devices, use, self._candidates, self._version)
        except Refused as error:
            return (Reason(str(error)),)
