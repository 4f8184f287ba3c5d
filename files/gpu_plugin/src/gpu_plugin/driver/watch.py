# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs as they are known: by the driver's last report, and the faults since."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import NvmlError
from .._shared._machine.host import Host
from .._shared._node.machine import device_nodes
from .._shared._node.quarantine import GATE
from .._shared._repair.signs import STEPS, Action
from .._shared._repair.xids.table import KNOWN
from ..config.configuration import Config
from ..model.inventory import (
    RELEASE,
    Faults,
    GpuView,
    Inventory,
    Kind,
    Problem,
    Unhealthy,
    judged,
    remember,
)
from ..model.topology import Topology
from ..observer import NVML_ERRORS, XIDS, Observer
from ..tools import logs
from ..tools.chores import Chore, Worker
from .asking import EVERY, Setting
from .health import Health
from .memory import FILE, ClearRequests, HealthFile
from .nvml import Driver, DriverReplaced, Xid, library_deleted
from .quarantine import FILE as SET_ASIDE
from .quarantine import QuarantineWatch

RETRY: Final = 1.0  # seconds between two looks for a driver
UNKNOWN: Final = "NVML has not answered yet"


class XidLog:
    """Logs XIDs: the first of its kind at once, what follows it within ``pause`` as a number."""

    def __init__(self, pause: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        # When it was logged, and how many came since.
        self._logged: dict[Xid, tuple[float, int]] = {}

    def heard(self, xid: Xid) -> None:
        """Note an XID."""
        if xid in self._logged:
            at, since = self._logged[xid]
            self._logged[xid] = at, since + 1
        else:
            self._log(xid, 1)

    def tick(self) -> None:
        """Log the XIDs that were gathered for long enough."""
        for xid, (at, since) in list(self._logged.items()):
            if self._clock() - at >= self._pause:
                del self._logged[xid]
                if since:
                    self._log(xid, since)

    def _log(self, xid: Xid, times: int) -> None:
        where = {"gpu": xid.gpu_uuid, "xid": xid.number, "gi": xid.gi_id, "ci": xid.ci_id}
        logs.warning("XID", **where, **({"times": times} if times > 1 else {}))
        self._logged[xid] = self._clock(), 0


class Onsets:
    """The times at which problems without a memory of their own began, such as that NVML is slow."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, Kind], int] = {}

    def of(self, current: Iterable[tuple[str, Kind]], clock: float) -> dict[tuple[str, Kind], int]:
        """Return since when each of these lasts; what is none of them any more is forgotten."""
        self._since = {key: self._since.get(key, int(clock)) for key in current}
        return self._since


class GpuWatch:
    """Asks the driver in a thread of its own, so that requests need not wait for it.

    Args:
        host_root: Where the host's /proc and /sys are seen.
        folder: Where what is known of faults is stored for the next process.
        interval: Seconds between two looks.
        quiet: The recovery period of faults in seconds.
        observer: Counts errors and XIDs.
        wake: Called when there is news.
        beside: Where what is known of faults is stored as well.
    """

    def __init__(
        self,
        host_root: Path,
        folder: Path,
        interval: float,
        quiet: float,
        observer: Observer,
        wake: Callable[[], None],
        beside: Path | None = None,
    ) -> None:
        self.inventory = Inventory("", absent=UNKNOWN)
        self.topology = Topology()
        self._host, self._root = Host(), str(host_root).rstrip("/")
        self._driver, self._health = Driver(host_root, wake), Health(quiet)
        self._health.on_reset = lambda uuid, shown_by: logs.info(
            "the GPU was reset", gpu=uuid, shown_by=shown_by
        )
        self._observer, self._interval, self._wake = observer, interval, wake
        self._xid_log = XidLog()
        self._worker = Worker("nvml")
        self._known = self.inventory  # the worker's, as is whether the driver was replaced
        self._replaced = False
        self._roots: tuple[str, ...] = ()  # where the library is from, which stays the process's
        self._looks = self.taken = 0  # how many looks ended, and of how many that is known
        self._begun, self._hurry = -math.inf, False
        self._faults: Faults = {}
        self._onsets = Onsets()
        self._scan = Chore("nvml", "the GPUs can't be read, trying again", self._look)
        trouble = "not all GPUs can be compared with what is declared of their settings"
        self._compare = Chore("settings", trouble, lambda: self._driver.compare(self._known))
        trouble = "not all connections of the GPUs are known"
        self._connect = Chore("topology", trouble, lambda: self._driver.connect(self._known))
        trouble = (
            "the driver's library was exchanged on disk, a reload of the driver or a reboot is due"
        )
        self._exchanged = Chore("library", trouble, _check_library)
        self._hear = Chore("events", "XIDs can't be heard", self._driver.check_events)
        self._file = HealthFile(folder / FILE, host_root, beside / FILE if beside else None)
        trouble = "what is known about the GPUs' health can't be kept"
        self._quarantine = QuarantineWatch(host_root, folder / SET_ASIDE)
        self._keep = Chore("health_file", trouble, self._write)
        trouble = "what an operator wants cleared can't be read"
        self._requests = Chore("health_clear", trouble, ClearRequests(folder).take)
        self.chores = (
            *(self._scan, self._connect, self._compare, self._exchanged),
            *(self._hear, self._keep, self._requests, *self._quarantine.chores),
        )
        self._file.read(self._health, self._driver.load, self._driver.generation)

    def first_look(self, config: Config, pause: Callable[[], bool]) -> None:
        """Wait for the first look, as long as a driver may take that does not hang, or until ``pause`` is False."""
        self._driver.asking.wait(config.health.nvml_timeout)
        deadline = time.monotonic() + self._driver.asking.longest
        while time.monotonic() < deadline:
            self.tick(config)
            if self.taken or not pause():
                return

    def tick(self, config: Config, *, at_once: bool = False) -> bool:
        """Take what is new and ask again when it is time. Return whether anything is new.

        Raises:
            DriverReplaced: if no look by this process can find the driver, such as one in another folder.
        """
        self._roots = self._roots or config.driver.roots
        if self._replaced or config.driver.roots != self._roots:
            raise DriverReplaced
        self._health.overrides = config.health.xids
        self._driver.asking.wait(config.health.nvml_timeout)
        moment = time.monotonic()
        soon = self._known.absent or self._hurry
        pause = min(RETRY, self._interval) if soon else self._interval
        if at_once:
            self._begun = -math.inf
        if moment - self._begun >= pause and self._worker.start(lambda: self._poll(config)):
            self._begun, self._hurry = moment, False
        old = self.inventory
        before = (self.taken, old.slow, old.hung, old.nodes, self.topology)
        if self._looks != self.taken:
            self._health.see(self._known)
        self.taken, self.topology = self._looks, self._driver.connections.topology
        asking = self._driver.asking
        slow, hung = self._uuids(asking.slow()), self._uuids(asking.hung())
        noted = self._quarantine.look()
        nodes = old.nodes  # what is wrong with the device nodes that all GPUs share
        with contextlib.suppress(NodeError):
            nodes = "; ".join(device_nodes.problems(self._host, self._root, config.driver.dev_root))
        self.inventory = replace(
            self._known,
            slow=slow,
            hung=hung,
            patience=asking.patience,
            quarantine=self._quarantine.entries,
            gated=self._quarantine.gated,
            nodes=nodes,
        )
        self._hear.run()
        noted |= self._note_xids() | self._clear()
        return noted or before != (self.taken, slow, hung, nodes, self.topology)

    def faults(self) -> Faults:
        """Return what makes GPUs unhealthy. It is written before it is published: a kill forgets nothing."""
        if not self.inventory.absent:
            self._faults = self._health.judge(self.inventory, self.inventory.generation)
        self._keep.run()
        return self._faults

    def _write(self) -> None:
        indices = {view.gpu.uuid: str(view.gpu.index) for view in self.inventory.gpus}
        self._file.write(self._health, self._driver.load, indices)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The declared settings of the GPUs that are not set aside, as they were compared last."""
        gpus = self.inventory.quarantine.gpus.items()
        aside = {uuid for uuid, entry in gpus if entry.author != GATE}
        return tuple(
            setting for setting in self._driver.settings.compared if setting.uuid not in aside
        )

    def unhealthy(self) -> tuple[Unhealthy, ...]:
        """Return everything that is unhealthy, since when, and its recovery."""
        return unhealthy(self.inventory, self._health.faults(), self._onsets, time.time())

    def verdicts(self) -> dict[str, dict[str, str]]:
        """Return by UUID what is to be done about a GPU, and why; GPUs without are left out."""
        return {
            view.gpu.uuid: {
                "index": str(view.gpu.index),
                "verdict": action.word,
                "reason": why,
                "next_step": STEPS[action],
            }
            for view, action, why in verdicts(judged(self.inventory, self._faults))
        }

    def _clear(self) -> bool:
        """Forget the faults that an operator wants cleared."""
        requests = self._requests.run() or ()
        for uuid in requests:
            if reasons := self._health.clear(uuid):
                logs.info("faults are cleared at an operator's request", gpu=uuid, faults=reasons)
        return bool(requests)

    def _note_xids(self) -> bool:
        noted = False
        while self.taken and not self._driver.xids.empty():  # nobody else takes any
            xid = self._driver.xids.get()
            noted |= self._health.xid(*xid)
            self._hurry |= KNOWN.asks_driver(xid.number)
            self._xid_log.heard(xid)
            follows = self._health.effect(xid.gpu_uuid, xid.number).value
            self._observer.count(XIDS, xid.gpu_uuid, str(xid.number), follows)
        self._xid_log.tick()
        return noted

    def _uuids(self, keys: frozenset[int]) -> frozenset[str]:
        """Return the GPUs with these indices, all for EVERY."""
        gpus = [gpu.gpu for gpu in self._known.gpus] if keys else []
        return frozenset(gpu.uuid for gpu in gpus if keys & {gpu.index, EVERY})

    # --- in the worker ---

    def _poll(self, config: Config) -> None:
        self._scan.run(config)
        self._looks += 1
        self._wake()
        self._exchanged.run()
        if not self._known.absent:
            before = self._driver.connections.topology
            self._connect.run()
            if self._driver.connections.topology is not before:
                self._wake()
            self._compare.run()

    def _look(self, config: Config) -> None:
        before = self._known
        try:
            scanned = self._driver.scan(*config.driver.roots)
        except NvmlError as error:
            self._observer.count(NVML_ERRORS, "", str(error.code))
            self._replaced = self._driver.replaced(error)
            if before.absent != str(error) and not self._replaced:
                logs.warning("waiting for the driver", cause=error)
            self._known = replace(before, absent=str(error))
            return
        if before.absent not in ("", UNKNOWN):
            logs.info("the driver is there", version=scanned.driver_version)
        if scanned.unreadable and not before.unreadable:
            logs.warning("a GPU does not answer", cause=next(iter(scanned.unreadable.values())))
        self._known = remember(before, scanned)
        problems = [(view.gpu.uuid, view.problem) for view in self._known.gpus]
        problems += [("unknown", stranger) for stranger in self._known.strangers]
        for uuid, problem in problems:
            if problem and problem.code:
                self._observer.count(NVML_ERRORS, uuid, str(problem.code))


def _check_library() -> None:
    if library_deleted():
        raise NodeError(
            "this process has loaded a library of the driver that is not on disk any more"
        )


def unhealthy(
    inventory: Inventory, faults: Faults, onsets: Onsets, clock: float
) -> tuple[Unhealthy, ...]:
    """Return everything that is unhealthy, by GPU and instance. ``clock`` is the time since 1970."""
    indices = {view.gpu.uuid: str(view.gpu.index) for view in inventory.gpus}
    result = {}
    for view in inventory.gpus:
        if view.problem or view.gpu.uuid in inventory.hung:
            result[view.gpu.uuid] = view.problem or inventory.no_answer
    since = onsets.of(((uuid, problem.kind) for uuid, problem in result.items()), clock)
    rows = []
    for place, fault in faults.items():
        uuid = place[0]
        lost = place == (uuid, None, None) and uuid in result and result[uuid].kind is Kind.LOST
        kind = Kind.LOST if lost else Kind.FAULT
        rows.append(Unhealthy.of(place, indices.get(uuid, ""), kind, fault))
        if lost:
            del result[uuid]
    for uuid, problem in result.items():
        reported = replace(problem, since=since[uuid, problem.kind])
        rows.append(Unhealthy.of((uuid, None, None), indices[uuid], problem.kind, reported))
    quarantine = inventory.quarantine
    for uuid in dict.fromkeys([*quarantine.gpus, *(indices if quarantine.node else ())]):
        if entry := quarantine.of(uuid):  # also of GPUs that are gone
            why = Problem(Kind.QUARANTINED, str(entry), recovery=RELEASE, since=int(entry.since))
            rows.append(Unhealthy.of((uuid, None, None), indices.get(uuid, ""), why.kind, why))

    def order(row: Unhealthy) -> tuple[str, int, int, str]:
        gi, ci = (-1 if number is None else number for number in (row.gi, row.ci))
        return row.gpu, gi, ci, row.kind

    return tuple(sorted(rows, key=order))


def verdicts(judged: Inventory) -> Iterator[tuple[GpuView, Action, str]]:
    """Yield the GPUs about which something is to be done, with the gravest action and why.

    ``judged`` is the inventory with what makes GPUs unhealthy. What a GPU asks for counts even if the GPU may be used.
    """
    for view in judged.gpus:
        reasons = [(reason.action, reason.text) for reason in view.verdict.reasons]
        problems = filter(None, (view.problem, *view.mig_problems.values()))
        reasons += [(problem.verdict, problem.reason) for problem in problems]
        action, text = max(reasons, key=lambda reason: reason[0], default=(Action.NONE, ""))
        if action:
            yield view, action, text
