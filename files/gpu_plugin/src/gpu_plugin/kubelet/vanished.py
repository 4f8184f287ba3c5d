# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that pods were given, and that no GPU has any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from .._shared._core.allocated import NAMED, ROOTS, SOCKET, Allocation
from ..offer.devices import Inventory
from ..tools import logs
from ..tools.chores import Chore, Worker
from .client import PodResources

SETTLED: Final = 2.0  # seconds after a change, in which the kubelet and the layout come to an end
AGAIN: Final = 30.0  # while there are any, so that it is seen when their pods are gone
SELDOM: Final = 600.0


class Vanished:
    """Asks the kubelet when devices have changed, and seldom besides, in a thread of its own."""

    def __init__(self, kubelet: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Use the PodResources socket below ``kubelet``, the kubelet's root folder, or below another known one."""
        self._sockets = [root / SOCKET for root in (kubelet, *map(Path, ROOTS))]
        self._clock, self._worker = clock, Worker("pods")
        self._uuids: frozenset[str] = frozenset()
        self._settles, self._asked = 0.0, -1.0
        self.found: tuple[Allocation, ...] = ()
        self.chore = Chore("pods", "it is not known which pods have which devices", self._look)

    def tick(self, inventory: Inventory) -> None:
        """Begin to ask, where it is time; a driver or a GPU that does not answer proves nothing gone."""
        if inventory.absent or inventory.unreadable:
            return
        now, gpus = self._clock(), [one.gpu.uuid for one in inventory.gpus]
        uuids = frozenset([*gpus, *inventory.mig_uuids])
        if uuids != self._uuids:
            self._uuids, self._settles = uuids, now + SETTLED
        again = self._asked + (AGAIN if self.found else SELDOM)
        due = self._settles if self._asked < self._settles else again
        if now >= due and self._worker.start(lambda: self.chore.run(uuids)):
            self._asked = now

    def describe(self) -> list[dict[str, str]]:
        """Return them as JSON can hold them."""
        return [asdict(one) for one in self.found]

    def _look(self, uuids: frozenset[str]) -> None:
        socket = next((one for one in self._sockets if one.exists()), None)
        given = PodResources(socket).allocations() if socket else []
        found = tuple(gone(given, uuids))
        for one in found:
            if one not in self.found:
                logs.error("a device vanished under a pod", who=str(one), device=one.device)
        for one in self.found:
            if one not in found:
                logs.info("no pod has the vanished device any more", device=one.device)
        self.found = found


def gone(given: Iterable[Allocation], uuids: frozenset[str]) -> list[Allocation]:
    """Return what is named by a UUID that no GPU and no MIG device has, one share for all of a container's."""
    found: dict[tuple[str, ...], Allocation] = {}
    for one in given:
        match = NAMED.search(one.device)
        if match and match[0] not in uuids and "MIG-GPU-" not in one.device:
            found.setdefault((one.namespace, one.pod, one.container, match[0]), one)
    return list(found.values())
