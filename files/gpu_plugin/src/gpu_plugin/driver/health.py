# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs and MIG devices must not be used, and until when. Pure.

What is to be done about a GPU is decided by the verdict that gpu.node.repair uses too: the driver's own recovery action
first, then the signs that the GPU reports, then the list of XIDs. A fault whose verdict fences makes all unhealthy that
is made of the GPU, or of the MIG instance that it concerns, until that is done: that a GPU answers is not enough. Then
it has to stay quiet for a recovery period, which doubles with each return. XIDs that only the user wants to count pass
by themselves, unless they keep coming back. What is known can be handed to the next process.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from .._shared._base.gpu import FaultSigns
from .._shared._repair.signs import ACTIONS, STEPS, GpuSigns, NodeSigns, Xid
from .._shared._repair.signs import Action as Verdict
from .._shared._repair.verdict import RECOVERIES, Reason, judge_gpu
from .._shared._repair.xids.known import CONTAINED, NOT_CORRECTED, OF_MEMORY, ROW_NOT_REPLACED
from .._shared._repair.xids.table import KNOWN
from ..model.inventory import BY_ITSELF, Faults, GpuView, Inventory, Kind, Place, Problem
from ..model.xids import Effect, Overrides, effect

FALL: Final = 2  # by which it is less at least after it began again
GROWTH: Final = 1.1  # by which the energy has to grow to be kept anew, since that writes a file
QUIET: Final = 30.0
MOST_DOUBLINGS: Final = 5
FORGET: Final = 20  # recovery periods without a fault after which what was is forgotten
RESET: Final = "a reset of the GPU or another load of the driver, which the plugin notices"
UNSEEN_RESET: Final = (
    "another load of the driver; or a reset of the GPU and then `gpu-plugin health clear {}`,"
    " since nothing shows a reset here"
)
REMADE: Final = "; or its MIG instance destroyed and made again"
REBOOT: Final = f"{STEPS[Verdict.REBOOT]}, or {STEPS[Verdict.REPLACE]}: no reset brings it back"
GONE: Final = (
    "that the driver has the GPU again; of one that was taken out for good"
    " `gpu-plugin health clear {}` forgets this"
)
REPLACED: Final = f"{STEPS[Verdict.REPLACE]}: no reset repairs it"
DONE: Final = "{}: the driver says itself when that is done"
FIRST: Final = "{}; it is fit again after {}"
XID_IN_REASON: Final = re.compile("XID ([0-9]{1,9})")  # of faults that earlier versions kept
FRESH: Final = object()  # no driver was looked at yet
STRIKES: Final = 4  # faults in a row that passed by themselves, the last of which is fatal


@dataclass(frozen=True)
class _Readings:
    """What a GPU reported. ``energy`` is in millijoules, None if it would show nothing."""

    energy: int | None
    pending: bool
    entries: tuple[int | None, ...]


class Resets:
    """Detects resets that the driver does not report, by the readings of GPUs that wait for one.

    Of a GPU that waits for a reset the readings are kept that another initialisation changes:

    * The energy that it consumed "since the driver was last reloaded" (nvmlDeviceGetTotalEnergyConsumption,
      Volta and later). It grows all the time, so where it is far less than it was, the driver initialised
      the GPU again; a reading that is a little less is no more than a bad reading. The driver also
      initialises a GPU when a process opens it that nobody had open, unless persistence mode is on (as
      nvmlEccCounterType_t says of its counters): the daemon's own restart would look like a reset. So it
      counts only where persistence mode was on.
    * A memory row that waits for a reset (nvmlDeviceGetRemappedRows, Ampere and later), and no longer does.
    * The GPU's entries in /sys and /proc, which are others after it was taken off the bus, or from the
      driver, and given back. The driver makes its own when it is given a GPU (nv_procfs_add_gpu, called by
      nv_pci_probe in its open kernel modules), and not when it initialises one.

    None of the three was seen on hardware yet; they follow NVML's documentation, that of persistence mode
    (docs.nvidia.com/deploy/driver-persistence: it keeps a GPU initialised without clients) and that source.
    """

    def __init__(self) -> None:
        self._readings: dict[str, _Readings] = {}

    def reset(self, view: GpuView) -> str:
        """Return what shows a reset since the readings were kept, empty if nothing does."""
        before, current = self._readings.get(view.gpu.uuid), _readings(view)
        if before is None:
            return ""
        energy = view.condition.energy
        if before.energy is not None and energy is not None and energy < before.energy / FALL:
            return "its energy counter began again"
        if before.pending and not current.pending and view.condition.signs.rows:
            return "no memory row waits for a reset any more"
        both = zip(before.entries, current.entries, strict=False)
        if any(old is not None and new is not None and old != new for old, new in both):
            return "it was taken off the bus or from the driver, and given back"
        return ""

    def keep(self, waiting: Container[str], views: Iterable[GpuView]) -> None:
        """Keep the readings of the GPUs that wait for a reset, by UUID, as far as they can be read; and no others."""
        self._readings = {
            uuid: readings for uuid, readings in self._readings.items() if uuid in waiting
        }
        for view in views:
            if view.problem is not None:
                continue
            before, current = self._readings.get(view.gpu.uuid), _readings(view)
            if before is not None:
                energy = current.energy
                if energy is not None and energy <= (before.energy or 0) * GROWTH:
                    energy = before.energy
                pending = current.pending or before.pending
                current = _Readings(energy, pending, before.entries or current.entries)
            self._readings[view.gpu.uuid] = current

    def forget(self, uuid: str) -> None:
        """Forget a GPU, which waits for nothing any more."""
        self._readings.pop(uuid, None)

    def shows(self, uuid: str) -> bool:
        """Return whether a reset of this GPU alone would show."""
        readings = self._readings.get(uuid)
        return readings is not None and (readings.energy is not None or readings.pending)

    def memory(self) -> dict[str, Any]:
        """Return the readings as JSON can hold them."""
        return {uuid: asdict(readings) for uuid, readings in self._readings.items()}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Restore the readings of another process, with any error of data of a wrong shape or value."""
        recalled = {}
        for uuid, data in memory.items():
            energy = None if data["energy"] is None else int(data["energy"])
            entries = tuple(None if inode is None else int(inode) for inode in data["entries"])
            recalled[str(uuid)] = _Readings(energy, bool(data["pending"]), entries)
        self._readings = recalled


def _readings(view: GpuView) -> _Readings:
    condition = view.condition
    energy = condition.energy if condition.persistent else None
    rows = condition.signs.rows
    return _Readings(energy, bool(rows and rows.pending), view.entries)


@dataclass
class _Fault:
    """A fault at a place. ``quiet_since`` is None until what ends it was done."""

    reason: str
    action: Effect
    strikes: int
    quiet_since: float | None
    over_since: float | None = None
    since: int = 0  # seconds since 1970, for people
    xid: int = 0  # or the one that it counts as, where it is one
    verdict: Verdict = Verdict.RESET
    reported: bool = False  # by the driver, as this XID


class Health:
    """Remembers what happened to each GPU. ``quiet`` is the shortest recovery period in seconds."""

    def __init__(
        self,
        quiet: float = QUIET,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.overrides = Overrides()
        self.on_reset: Callable[[str, str], None] = lambda _uuid, _shown_by: None  # of resets
        self._quiet = quiet
        self._clock, self._wall = clock, wall
        self._faults: dict[Place, _Fault] = {}
        self._away: set[str] = set()  # the GPUs that are lost, or gone
        self._gone: set[str] = set()  # the GPUs of which nothing is to be seen
        self._errors: dict[str, int] = {}  # the errors that each GPU had reported
        # The GPUs that ask for something, with all that they told of then.
        self._asked: dict[str, list[str]] = {}
        # Which XIDs each GPU had how often since its last reset, and when last.
        self._often: dict[str, dict[int, tuple[int, float]]] = {}
        self._speaks: set[str] = set()  # the GPUs whose driver has a recovery action
        self._branch = 0
        self._resets = Resets()
        self._generation: object = FRESH

    def xid(
        self,
        gpu_uuid: str,
        number: int,
        gi: int | None = None,
        ci: int | None = None,
        reason: str = "",
    ) -> bool:
        """Note an XID, or the ``reason`` that counts as this XID.

        Return whether it makes something unhealthy that was fit before.
        """
        if KNOWN.counts(number):
            times, last = self._often.get(gpu_uuid, {}).get(number, (0, -math.inf))
            moment = self._clock()  # those that come together report one fault
            times += moment - last >= self._quiet
            self._often.setdefault(gpu_uuid, {})[number] = times, moment
        action, cause = self._effect(gpu_uuid, number)
        if action is Effect.IGNORE:
            return False
        wide = cause.action > Verdict.DRAIN_THEN_RESET and cause.action is not Verdict.ASK
        place = (gpu_uuid, None, None) if wide else (gpu_uuid, gi, ci)
        finding = cause._replace(text=reason or cause.text)
        return self._note(place, finding, action, number, reported=not reason)

    def effect(self, gpu_uuid: str, number: int) -> Effect:
        """Return what follows from an XID that was noted."""
        return self._effect(gpu_uuid, number)[0]

    def _effect(self, uuid: str, number: int) -> tuple[Effect, Reason]:
        times, _last = self._often.get(uuid, {}).get(number, (1, 0.0))
        heard = Xid(number, times=times)
        return effect(heard, self.overrides, self._branch, speaks=uuid in self._speaks)

    def see(self, inventory: Inventory) -> None:
        """Note which GPUs have a driver with a recovery action, which counts for XIDs from now on."""
        branch = inventory.driver_version.partition(".")[0]
        self._branch = int(branch) if branch.isascii() and branch.isdigit() else 0
        self._speaks |= {
            view.gpu.uuid for view in inventory.gpus if view.condition.signs.recovery in RECOVERIES
        }

    def judge(self, inventory: Inventory, generation: object) -> Faults:
        """Return what is unhealthy after a look at the GPUs, and why. ``generation`` is the driver's."""
        before, self._generation = self._generation, generation
        if before not in (FRESH, generation):
            self._away.clear()
            self._errors.clear()
            self._asked.clear()
            self._often.clear()
            self._speaks.clear()
            self._resets = Resets()
            self._cured(lambda _place, _fault: True)
        self.see(inventory)
        there = {view.gpu.uuid for view in inventory.gpus}
        self._gone = {place[0] for place in self._faults if place[0] not in there}
        self._away |= self._gone
        for view in inventory.gpus:
            self._look(view)
        self._pass()
        waiting = {place[0] for place, fault in self._faults.items() if fault.quiet_since is None}
        self._resets.keep(waiting, [view for view in inventory.gpus if view.gpu.uuid in waiting])
        return self.faults()

    def faults(self) -> Faults:
        """Return the faults that make something unhealthy, as they were judged last."""
        problems = {}
        for place, fault in self._faults.items():
            if fault.over_since is None:
                recovery, clearable = self._recovery_of(place, fault)
                due = fault.verdict if fault.quiet_since is None else Verdict.NONE
                xid = fault.xid if fault.reported else 0
                problems[place] = Problem(
                    Kind.FAULT, fault.reason, 0, recovery, due, fault.since, clearable, xid
                )
        return problems

    def clear(self, uuid: str) -> list[str]:
        """Forget the faults of a GPU at an operator's request. Return their reasons.

        What the GPU still reports makes it unhealthy again at the next look.
        """
        ours = [place for place in self._faults if place[0] == uuid]
        self._resets.forget(uuid)
        self._away.discard(uuid)
        self._often.pop(uuid, None)
        return [self._faults.pop(place).reason for place in ours]

    def _recovery_of(self, place: Place, fault: _Fault) -> tuple[str, bool]:
        """Return what brings a GPU back, and whether clear() would."""
        uuid, gi, _ci = place
        if uuid in self._gone:
            return GONE.format(uuid), True
        if uuid in self._asked and gi is None:
            step = STEPS[fault.verdict]
            return REPLACED if fault.verdict is Verdict.REPLACE else DONE.format(step), False
        if fault.quiet_since is not None:
            seconds = self._quiet_seconds(fault)
            text = f"{BY_ITSELF} after {seconds:.0f} seconds without another fault"
            return text, True
        if fault.verdict is Verdict.REBOOT:
            return REBOOT, uuid not in self._away
        counted = fault.xid in OF_MEMORY and self._errors.get(uuid)
        shows = uuid in self._away or self._resets.shows(uuid) or counted
        text = RESET if shows else UNSEEN_RESET.format(uuid)
        if fault.verdict is not Verdict.RESET:
            text = FIRST.format(STEPS[fault.verdict], text)
        return text + (REMADE if gi is not None else ""), uuid not in self._away

    # --- what outlives the process ---

    def memory(self) -> dict[str, Any]:
        """Return the faults and their history as JSON can hold them; times are the clock's."""
        return {
            "faults": [
                {
                    "place": place,
                    **asdict(fault),
                    "action": fault.action.value,
                    "verdict": fault.verdict.word,
                }
                for place, fault in self._faults.items()
            ],
            "away": sorted(self._away),
            "errors": dict(self._errors),
            "asked": dict(sorted(self._asked.items())),
            "often": [
                [uuid, number, *times]
                for uuid, times_by_xid in self._often.items()
                for number, times in times_by_xid.items()
            ],
            "signs": self._resets.memory(),
        }

    def recall(self, memory: Mapping[str, Any], generation: object) -> None:
        """Restore the faults of another process on the same clock.

        ``generation`` is the driver's if it was the same then, else None: all faults count as cured.

        Raises:
            ValueError: if the memory has another form; nothing is restored then.
        """
        try:
            faults = dict(
                _recalled(fault, self._clock(), self._wall()) for fault in memory["faults"]
            )
            away = set(map(str, memory["away"]))
            # Versions before this one kept no more than which GPUs asked, and not how often there were XIDs.
            before = memory["asked"]
            asking = dict.fromkeys(before, ()) if isinstance(before, list) else dict(before)
            asks = {str(uuid): list(map(str, names_told)) for uuid, names_told in asking.items()}
            often: dict[str, dict[int, tuple[int, float]]] = {}
            for uuid, number, times, last in memory.get("often", ()):
                at = min(float(last), self._clock())
                often.setdefault(str(uuid), {})[int(number)] = int(times), at
            errors = {str(uuid): int(count) for uuid, count in memory["errors"].items()}
            resets = Resets()
            resets.recall(memory.get("signs", {}))  # versions before this one did not keep them
        except (AttributeError, ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(f"not a memory of faults: {error!r}") from error
        self._faults, self._away, self._errors, self._asked = faults, away, errors, asks
        self._often, self._resets = often, resets
        self._generation = generation

    # --- what happens to faults ---

    def _note(
        self, place: Place, cause: Reason, action: Effect, xid: int = 0, *, reported: bool = False
    ) -> bool:
        moment = self._clock()
        before = self._faults.get(place)
        fresh = before is None or before.over_since is not None
        strikes = 1 if before is None else before.strikes + fresh
        if action is Effect.DEGRADE and strikes >= STRIKES:
            action = Effect.FATAL
        verdict = cause.action if cause.action.fences else Verdict.NONE
        if action is Effect.FATAL:
            verdict = verdict or Verdict.RESET
        reason = cause.text
        if before is not None and not fresh and before.action is Effect.FATAL:
            action = Effect.FATAL
            # What the GPU reports of itself counts as it is now; all else stays unless it is graver than what was.
            if verdict <= before.verdict and (xid or before.xid):
                reason, xid, verdict = before.reason, before.xid, before.verdict
                reported = before.reported
        quiet_since = moment if action is Effect.DEGRADE else None
        since = int(self._wall()) if before is None or fresh else before.since
        self._faults[place] = _Fault(
            reason, action, strikes, quiet_since, None, since, xid, verdict, reported
        )
        return fresh

    def _look(self, view: GpuView) -> None:
        """Note whether a GPU went, came back, or lost the instances that had a fault."""
        uuid = view.gpu.uuid
        if view.problem and view.problem.kind is Kind.LOST:
            if uuid not in self._away:
                self._away.add(uuid)
                lost = Reason(view.problem.verdict, view.problem.reason)
                self._note((uuid, None, None), lost, Effect.FATAL)
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
        self._judge_signs(uuid, reported.signs)
        if reported.uncorrected is not None:
            before = self._errors.get(uuid, 0)
            self._errors[uuid] = reported.uncorrected
            if reported.uncorrected < before:  # a reset, or an operator who cleared the counters
                self._cured(lambda at, fault: at[0] == uuid and fault.xid in OF_MEMORY)
                before = 0
            unhealthy = (at[0] for at, fault in self._faults.items() if fault.over_since is None)
            if reported.uncorrected > before and uuid not in unhealthy:  # else an XID reported them
                # A GPU that replaces rows confines an error to who used that memory; older ones want a reset. In MIG
                # mode, which only the former have, nothing is told of rows.
                contained = reported.signs.rows is not None or view.gpu.mig_current
                number = CONTAINED if contained else NOT_CORRECTED
                reason = f"{reported.uncorrected} memory errors since its last reset"
                self.xid(uuid, number, reason=reason)

    def _judge_signs(self, uuid: str, signs: FaultSigns) -> None:
        """Note whether a GPU or its driver asks for something, or does no longer."""
        if self.overrides.disabled is None:
            signs = FaultSigns(rows=signs.rows)
        if self.overrides.ignores(ROW_NOT_REPLACED):
            signs = replace(signs, rows=None)
        # A GPU's fabric is for its links to others, which many jobs don't use.
        signs = replace(signs, fabric=None)
        reported = [name for name, value in vars(signs).items() if value is not None]
        verdict = judge_gpu(NodeSigns(), GpuSigns("", signs=signs))
        if verdict.action.fences:
            self._asked[uuid] = reported
            self._note((uuid, None, None), verdict.reasons[0], Effect.FATAL)
        elif uuid in self._asked and reported and set(self._asked[uuid]) <= set(reported):
            del self._asked[uuid]  # by all that it reported then, and not since it is silent
            self._was_reset(uuid, "the driver asks for nothing any more")

    def _was_reset(self, uuid: str, shown_by: str) -> None:
        faults = [fault for place, fault in self._faults.items() if place[0] == uuid]
        if any(fault.quiet_since is None for fault in faults):
            self.on_reset(uuid, shown_by)
        self._resets.forget(uuid)
        self._often.pop(uuid, None)
        self._cured(lambda place, _fault: place[0] == uuid)

    def _cured(self, which: Callable[[Place, _Fault], bool]) -> None:
        for place, fault in self._faults.items():
            if fault.quiet_since is None and which(place, fault):
                fault.quiet_since = self._clock()

    def _pass(self) -> None:
        """End the faults that were quiet for long enough, and forget those that are long over."""
        moment = self._clock()
        for place, fault in list(self._faults.items()):
            seconds = self._quiet_seconds(fault)
            if fault.over_since is not None:
                if moment - fault.over_since >= FORGET * self._quiet:
                    del self._faults[place]
            elif fault.quiet_since is not None and moment - fault.quiet_since >= seconds:
                fault.over_since = moment

    def _quiet_seconds(self, fault: _Fault) -> float:
        """Return how many seconds have to pass without a fault."""
        return self._quiet * float(2 ** min(fault.strikes - 1, MOST_DOUBLINGS))


def _recalled(data: Mapping[str, Any], moment: float, wall: float) -> tuple[Place, _Fault]:
    uuid, *instance = data["place"]
    gi, ci = (None if part is None else int(part) for part in instance)
    quiet, over = (
        None if data[name] is None else min(float(data[name]), moment)
        for name in ("quiet_since", "over_since")
    )
    action = Effect(data["action"])
    since = int(data.get("since", wall))  # versions before this one did not keep it
    verdict = ACTIONS[data.get("verdict", Verdict.RESET.word)]  # nor this
    strikes = int(data["strikes"])
    reason = str(data["reason"])
    named = XID_IN_REASON.match(reason)
    reported = bool(data.get("reported", named))  # these had it in their reason alone
    xid = int(data.get("xid", named[1] if named else 0))  # or so did versions before them
    fault = _Fault(reason, action, strikes, quiet, over, since, xid, verdict, reported)
    return (str(uuid), gi, ci), fault
