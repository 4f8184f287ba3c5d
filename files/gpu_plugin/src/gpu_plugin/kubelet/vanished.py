# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that pods were given, and that no GPU has any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from .._shared._node.users.allocated import NAMED, Allocation
from ..model.inventory import Inventory
from ..tools import logs
from .holders import Answer


class Vanished:
    """Tells of them, once for each."""

    def __init__(self) -> None:
        self.found: tuple[Allocation, ...] = ()
        self._looked_at: Answer | None = None

    def look(self, answer: Answer | None, inventory: Inventory) -> None:
        """Look through an answer of the kubelet; a driver or a GPU that was never read proves nothing gone."""
        unread = any(one.problem and not one.mig and one.gpu.mig_current for one in inventory.gpus)
        if answer is None or answer is self._looked_at:
            return
        if inventory.absent or inventory.strangers or unread:
            return
        self._looked_at = answer
        found = tuple(gone(answer.given, answer.uuids))
        for one in found:
            if one not in self.found:
                logs.error("a device vanished under a pod", who=str(one), device=one.device)
        for one in self.found:
            if one not in found:
                logs.info("no pod has the vanished device any more", device=one.device)
        self.found = found

    def describe(self) -> list[dict[str, str]]:
        """Return them as JSON can hold them."""
        return [asdict(one) for one in self.found]


def gone(given: Iterable[Allocation], uuids: frozenset[str]) -> list[Allocation]:
    """Return what is named by a UUID that no GPU and no MIG device has, one share for all of a container's."""
    found: dict[tuple[str, ...], Allocation] = {}
    for one in given:
        match = NAMED.search(one.device)
        if match and match[0] not in uuids and "MIG-GPU-" not in one.device:
            found.setdefault((one.namespace, one.pod, one.container, match[0]), one)
    return list(found.values())
