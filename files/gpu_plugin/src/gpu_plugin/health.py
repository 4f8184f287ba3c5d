# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs must not be used, and until when. Pure.

An XID that is not an application's own fault makes a GPU unfit, with all that is made of it. It is
fit again once it was reset or the driver was loaded anew: that it answers is not enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .devices import Inventory

# XIDs that come from what an application did; the GPU itself is fine.
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})


class Health:
    """Remembers what happened to each GPU."""

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}
        self._away: set[str] = set()
        self._generation: object = None

    def xid(self, gpu_uuid: str, number: int) -> bool:
        """Take note of an XID. Returns whether it makes the GPU unfit that was fit before."""
        if number in APPLICATION_XIDS:
            return False
        known = gpu_uuid in self._faults
        self._faults.setdefault(gpu_uuid, f"XID {number}")
        return not known

    def judge(self, inventory: Inventory, generation: object) -> Inventory:
        """Return a scan's inventory with unfit GPUs' problems. ``generation``: the driver's."""
        if generation != self._generation:
            self._faults.clear()
            self._away.clear()
            self._generation = generation
        for view in inventory.gpus:
            if view.problem:
                self._away.add(view.gpu.uuid)
            elif view.gpu.uuid in self._away:  # only a reset brings a lost GPU back
                self._away.discard(view.gpu.uuid)
                self._faults.pop(view.gpu.uuid, None)
        return replace(
            inventory,
            gpus=tuple(
                view if view.problem else replace(view, problem=self._faults.get(view.gpu.uuid, ""))
                for view in inventory.gpus
            ),
        )
