# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs and MIG devices must not be used, and until when. Pure.

A fault sets aside all that is made of the GPU, or of the MIG instance that it concerns. What the GPU
coped with passes when it stays quiet; all else needs a reset or another load of the driver first,
since that a GPU answers is not enough. Each return to a fault doubles the quiet time, and what keeps
coming back by itself is not let pass any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from .devices import GpuView, Inventory
from .xids import ROW_NOT_REPLACED, WHOLE, Action, Overrides, action, describe

QUIET: Final = 30.0
MOST_DOUBLINGS: Final = 5
FORGET: Final = 20  # quiet times without a fault after which what was is forgotten
STRIKES: Final = 4  # faults in a row that it coped with, the last of which is fatal

# A GPU, or an instance of it: the UUID and the ids of the GPU and compute instance.
Place = tuple[str, int | None, int | None]


@dataclass
class _Fault:
    """What is wrong at a place. ``quiet_since`` is None while a reset is waited for."""

    reason: str
    action: Action
    strikes: int
    quiet_since: float | None
    over_since: float | None = None


class Health:
    """Remembers what happened to each GPU. ``quiet`` is the shortest quiet time in seconds."""

    def __init__(self, quiet: float = QUIET, clock: Callable[[], float] = time.monotonic) -> None:
        self.overrides = Overrides()
        self._quiet = quiet
        self._clock = clock
        self._faults: dict[Place, _Fault] = {}
        self._away: set[str] = set()
        self._generation: object = None

    def xid(self, gpu_uuid: str, number: int, gi: int | None = None, ci: int | None = None) -> bool:
        """Take note of an XID. Returns whether it makes something unfit that was fit before."""
        what = action(number, self.overrides)
        if what is Action.IGNORE:
            return False
        place = (gpu_uuid, None, None) if number in WHOLE else (gpu_uuid, gi, ci)
        return self._note(place, describe(number), what)

    def judge(self, inventory: Inventory, generation: object) -> Inventory:
        """Return a scan's inventory with what is unfit. ``generation``: the driver's."""
        if generation != self._generation:
            self._generation = generation
            self._away.clear()
            self._cured(lambda _place: True)
        there = {view.gpu.uuid for view in inventory.gpus}
        self._away |= {place[0] for place in self._faults if place[0] not in there}
        for view in inventory.gpus:
            self._look(view)
        self._pass()
        return replace(inventory, gpus=tuple(self._marked(view) for view in inventory.gpus))

    def _note(self, place: Place, reason: str, what: Action) -> bool:
        now = self._clock()
        before = self._faults.get(place)
        fresh = before is None or before.over_since is not None
        strikes = 1 if before is None else before.strikes + fresh
        if what is Action.DEGRADE and strikes >= STRIKES:
            what = Action.FATAL
        if before is not None and not fresh and before.action is Action.FATAL:
            what = Action.FATAL
            reason = before.reason
        quiet_since = now if what is Action.DEGRADE else None
        self._faults[place] = _Fault(reason, what, strikes, quiet_since)
        return fresh

    def _look(self, view: GpuView) -> None:
        """See whether a GPU went, came back, or lost the instances that had a fault."""
        uuid = view.gpu.uuid
        if view.lost:
            if uuid not in self._away:
                self._away.add(uuid)
                self._note((uuid, None, None), view.problem, Action.FATAL)
            return
        if view.problem:
            return
        if uuid in self._away:  # only a reset brings a lost GPU back
            self._away.discard(uuid)
            self._cured(lambda place: place[0] == uuid)
        there = {(mig.gi_id, mig.ci_id) for mig in view.mig} | {
            (mig.gi_id, None) for mig in view.mig
        }
        self._cured(
            lambda place: place[0] == uuid and place[1] is not None and place[1:] not in there
        )
        if view.worn:  # after all else, since no reset mends it
            self.xid(uuid, ROW_NOT_REPLACED)

    def _cured(self, at: Callable[[Place], bool]) -> None:
        for place, fault in self._faults.items():
            if at(place) and fault.quiet_since is None:
                fault.quiet_since = self._clock()

    def _pass(self) -> None:
        """End the faults that were quiet for long enough, and forget those that are long over."""
        now = self._clock()
        for place, fault in list(self._faults.items()):
            if fault.over_since is not None:
                if now - fault.over_since >= FORGET * self._quiet:
                    del self._faults[place]
            elif fault.quiet_since is not None:
                doubled = self._quiet * 2 ** min(fault.strikes - 1, MOST_DOUBLINGS)
                if now - fault.quiet_since >= doubled:
                    fault.over_since = now

    def _marked(self, view: GpuView) -> GpuView:
        open_ = {
            place: fault.reason
            for place, fault in self._faults.items()
            if place[0] == view.gpu.uuid and fault.over_since is None
        }
        if view.problem or not open_:
            return view
        parts = {
            mig.uuid: reason
            for mig in view.mig
            for (_uuid, gi, ci), reason in open_.items()
            if gi == mig.gi_id and ci in (None, mig.ci_id)
        }
        whole = next((reason for place, reason in open_.items() if place[1] is None), "")
        return replace(view, problem=whole, mig_problems=parts)
