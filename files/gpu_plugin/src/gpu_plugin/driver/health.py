# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs and MIG devices must not be used, and until when. Pure.

A fault makes all unhealthy that is made of the GPU, or of the MIG instance that it concerns. What the GPU
coped with passes when it stays quiet; all else needs a reset or another load of the driver first,
since that a GPU answers is not enough. Each return to a fault doubles the recovery period, and what keeps
coming back by itself is not let pass any more. What is known can be handed to the next process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from .._shared._base.gpu import GPU_IS_LOST
from ..model.inventory import Faults, GpuView, Inventory, Kind, Place, Problem
from ..model.xids import (
    CONTAINED,
    NOT_CORRECTED,
    OFF_THE_BUS,
    RECOVERIES,
    ROW_NOT_REPLACED,
    WHOLE,
    Action,
    Overrides,
    action,
    describe,
)
from .resets import Resets
from .unhealthy import BY_ITSELF, Standing

QUIET: Final = 30.0
MOST_DOUBLINGS: Final = 5
FORGET: Final = 20  # recovery periods without a fault after which what was is forgotten
RESET: Final = "a reset of the GPU or another load of the driver, which the plugin notices"
UNSEEN_RESET: Final = (
    "another load of the driver; or a reset of the GPU and then `gpu-plugin health clear {}`,"
    " since nothing shows a reset here"
)
REMADE: Final = "; or its MIG instance destroyed and made again"
REBOOT: Final = "a reboot of the node, or another GPU in its place: no reset brings it back"
GONE: Final = (
    "that the driver has the GPU again; of one that was taken out for good"
    " `gpu-plugin health clear {}` forgets this"
)
REPLACED: Final = "another GPU in its place: no reset repairs it"
DONE: Final = "what the driver asks for: it says itself when that is done"
OF_MEMORY: Final = frozenset(
    {48, 63, 64, 92, 94, 95}
)  # XIDs of which the ECC counters tell as well
STRIKES: Final = 4  # faults in a row that it coped with, the last of which is fatal


@dataclass
class _Fault:
    """What is wrong at a place. ``quiet_since`` is None while a reset is waited for."""

    reason: str
    action: Action
    strikes: int
    quiet_since: float | None
    over_since: float | None = None
    since: int = 0  # seconds since 1970, for people
    xid: int = 0  # or the one that it counts as, where it is one


class Health:
    """Remembers what happened to each GPU. ``quiet`` is the shortest recovery period in seconds."""

    def __init__(
        self,
        quiet: float = QUIET,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.overrides = Overrides()
        self.told: Callable[[str, str], None] = lambda _uuid, _shown_by: None  # of resets
        self._quiet = quiet
        self._clock, self._wall = clock, wall
        self._faults: dict[Place, _Fault] = {}
        self._away: set[str] = set()  # the GPUs that are lost, or gone
        self._gone: set[str] = set()  # the GPUs of which nothing is to be seen
        self._errors: dict[str, int] = {}  # the errors that each GPU had reported
        self._asked: set[str] = set()  # the GPUs for which the driver wants something done
        self._worn: set[str] = set()  # the GPUs that no reset mends
        self._resets = Resets()
        self._generation: object = None

    def xid(
        self,
        gpu_uuid: str,
        number: int,
        gi: int | None = None,
        ci: int | None = None,
        reason: str = "",
    ) -> bool:
        """Take note of an XID, or of what it stands for, which is the ``reason`` then.

        Returns whether it makes something unhealthy that was fit before.
        """
        what = action(number, self.overrides)
        if what is Action.IGNORE:
            return False
        place = (gpu_uuid, None, None) if number in WHOLE else (gpu_uuid, gi, ci)
        return self._note(place, reason or describe(number), what, number)

    def judge(self, inventory: Inventory, generation: object) -> Faults:
        """Return what is unhealthy after a look at the GPUs, and why. ``generation``: the driver's."""
        if generation != self._generation:
            self._generation = generation
            self._away.clear()
            self._errors.clear()
            self._asked.clear()
            self._resets.clear()
            self._cured(lambda _place, _fault: True)
        there = {view.gpu.uuid for view in inventory.gpus}
        self._gone = {place[0] for place in self._faults if place[0] not in there}
        self._away |= self._gone
        for view in inventory.gpus:
            self._look(view)
        self._pass()
        self._keep_signs(inventory)
        return {
            one.place: Problem(Kind.FAULT, one.reason, recovery=one.way_back)
            for one in self.standing()
        }

    def standing(self) -> list[Standing]:
        """Return the faults that make something unhealthy, as they were judged last."""
        return [
            Standing(place, one.reason, one.since, *self._way_back(place, one))
            for place, one in self._faults.items()
            if one.over_since is None
        ]

    def clear(self, uuid: str) -> list[str]:
        """Forget the faults of a GPU, because somebody who may says so. Returns their reasons.

        What the GPU still reports makes it unhealthy again at the next look.
        """
        ours = [place for place in self._faults if place[0] == uuid]
        self._resets.forget(uuid)
        self._away.discard(uuid)
        return [self._faults.pop(place).reason for place in ours]

    def _way_back(self, place: Place, fault: _Fault) -> tuple[str, bool]:
        """Return what brings a GPU back, and whether clear() would."""
        uuid, gi, _ci = place
        if uuid in self._gone:
            return GONE.format(uuid), True
        if uuid in self._worn and gi is None:
            return REPLACED, False
        if uuid in self._asked and gi is None:
            return DONE, False
        if fault.quiet_since is not None:
            text = f"{BY_ITSELF} after {self._recovery(fault):.0f} seconds without another fault"
            return text, True
        if fault.xid == OFF_THE_BUS:
            return REBOOT, uuid not in self._away
        counted = fault.xid in OF_MEMORY and self._errors.get(uuid)
        shows = uuid in self._away or self._resets.shows(uuid) or counted
        text = RESET if shows else UNSEEN_RESET.format(uuid)
        return text + (REMADE if gi is not None else ""), uuid not in self._away

    # --- what outlives the process ---

    def memory(self) -> dict[str, Any]:
        """Return what is known, as JSON can hold it; times are the clock's."""
        return {
            "faults": [
                {"place": place, **asdict(fault), "action": fault.action.value}
                for place, fault in self._faults.items()
            ],
            "away": sorted(self._away),
            "errors": dict(self._errors),
            "asked": sorted(self._asked),
            "signs": self._resets.memory(),
        }

    def recall(self, memory: Mapping[str, Any], generation: object) -> None:
        """Know again what another process on the same clock knew.

        ``generation`` is the driver's if it was the same then, else None: all faults count as cured.
        ValueError: this is no such memory; nothing is taken over.
        """
        try:
            faults = dict(_recalled(one, self._clock(), self._wall()) for one in memory["faults"])
            away, asked = (set(map(str, memory[name])) for name in ("away", "asked"))
            errors = {str(uuid): int(count) for uuid, count in memory["errors"].items()}
            resets = Resets()
            resets.recall(memory.get("signs", {}))  # versions before this one did not keep them
        except (AttributeError, ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(f"not a memory of faults: {error!r}") from error
        self._faults, self._away, self._errors, self._asked = faults, away, errors, asked
        self._resets = resets
        self._generation = generation

    # --- what happens to faults ---

    def _note(self, place: Place, reason: str, what: Action, xid: int = 0) -> bool:
        now = self._clock()
        before = self._faults.get(place)
        fresh = before is None or before.over_since is not None
        strikes = 1 if before is None else before.strikes + fresh
        if what is Action.DEGRADE and strikes >= STRIKES:
            what = Action.FATAL
        if before is not None and not fresh and before.action is Action.FATAL:
            what = Action.FATAL
            if xid != OFF_THE_BUS or before.xid == OFF_THE_BUS:  # else it is graver than what was
                reason, xid = before.reason, before.xid
        quiet_since = now if what is Action.DEGRADE else None
        since = int(self._wall()) if before is None or fresh else before.since
        self._faults[place] = _Fault(reason, what, strikes, quiet_since, since=since, xid=xid)
        return fresh

    def _look(self, view: GpuView) -> None:
        """See whether a GPU went, came back, or lost the instances that had a fault."""
        uuid = view.gpu.uuid
        if view.problem and view.problem.kind is Kind.LOST:
            if uuid not in self._away:
                self._away.add(uuid)
                xid = OFF_THE_BUS if view.problem.code == GPU_IS_LOST else 0
                self._note((uuid, None, None), view.problem.reason, Action.FATAL, xid)
            return
        if view.problem:
            return
        if uuid in self._away:  # it was reset, or found again by a boot
            self._away.discard(uuid)
            self._was_reset(uuid, "it is back on the bus")
        if shown_by := self._resets.reset(view):
            self._was_reset(uuid, shown_by)
        there = {(mig.gi_id, ci) for mig in view.mig for ci in (mig.ci_id, None)} | {(None, None)}
        self._cured(lambda place, _fault: place[0] == uuid and place[1:] not in there)
        self._weigh(view)

    def _weigh(self, view: GpuView) -> None:
        """Judge what a GPU reports of its condition. What it does not report changes nothing."""
        uuid, reported = view.gpu.uuid, view.condition
        if reported.recovery is not None and self.overrides.disabled is not None:
            if reason := RECOVERIES.get(reported.recovery):
                self._asked.add(uuid)
                self._note((uuid, None, None), reason, Action.FATAL)
            elif uuid in self._asked:
                self._asked.discard(uuid)
                self._was_reset(uuid, "the driver asks for nothing any more")
        if reported.uncorrected is not None:
            before = self._errors.get(uuid, 0)
            self._errors[uuid] = reported.uncorrected
            if reported.uncorrected < before:  # a reset, or an operator who cleared the counters
                self._cured(lambda at, fault: at[0] == uuid and fault.xid in OF_MEMORY)
                before = 0
            unhealthy = (at[0] for at, fault in self._faults.items() if fault.over_since is None)
            if reported.uncorrected > before and uuid not in unhealthy:  # else an XID reported them
                number = CONTAINED if reported.contains_errors else NOT_CORRECTED
                reason = f"{reported.uncorrected} memory errors since its last reset"
                self.xid(uuid, number, reason=reason)
        self._worn.discard(uuid)
        if reported.rows_failed:  # after all else, since no reset repairs it
            self._worn.add(uuid)
            self.xid(uuid, ROW_NOT_REPLACED)

    def _was_reset(self, uuid: str, shown_by: str) -> None:
        if any(place[0] == uuid and one.quiet_since is None for place, one in self._faults.items()):
            self.told(uuid, shown_by)
        self._resets.forget(uuid)
        self._cured(lambda place, _fault: place[0] == uuid)

    def _keep_signs(self, inventory: Inventory) -> None:
        """Keep what would show a reset of the GPUs that wait for one."""
        waiting = {place[0] for place, one in self._faults.items() if one.quiet_since is None}
        for view in inventory.gpus:
            if view.gpu.uuid not in waiting:
                self._resets.forget(view.gpu.uuid)
            elif view.problem is None:
                self._resets.keep(view)

    def _cured(self, which: Callable[[Place, _Fault], bool]) -> None:
        for place, fault in self._faults.items():
            if fault.quiet_since is None and which(place, fault):
                fault.quiet_since = self._clock()

    def _pass(self) -> None:
        """End the faults that were quiet for long enough, and forget those that are long over."""
        now = self._clock()
        for place, fault in list(self._faults.items()):
            if fault.over_since is not None:
                if now - fault.over_since >= FORGET * self._quiet:
                    del self._faults[place]
            elif self._quiet_for_long(fault, now):
                fault.over_since = now

    def _quiet_for_long(self, fault: _Fault, now: float) -> bool:
        since = fault.quiet_since
        return since is not None and now - since >= self._recovery(fault)

    def _recovery(self, fault: _Fault) -> float:
        """Return how many seconds have to pass without a fault."""
        return self._quiet * float(2 ** min(fault.strikes - 1, MOST_DOUBLINGS))


def _recalled(data: Mapping[str, Any], now: float, wall: float) -> tuple[Place, _Fault]:
    uuid, *instance = data["place"]
    gi, ci = (None if one is None else int(one) for one in instance)
    quiet, over = (
        None if data[name] is None else min(float(data[name]), now)
        for name in ("quiet_since", "over_since")
    )
    what = Action(data["action"])
    since = int(data.get("since", wall))  # versions before this one did not keep it
    xid = int(data.get("xid", 0))  # nor this
    fault = _Fault(str(data["reason"]), what, int(data["strikes"]), quiet, over, since, xid)
    return (str(uuid), gi, ci), fault
