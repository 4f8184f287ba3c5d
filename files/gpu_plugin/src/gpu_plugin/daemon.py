# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon: what is known of the GPUs decides what is advertised, which is served until it changes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from . import __version__
from .cdi.files import HostFiles
from .config.configuration import Config
from .config.last_good import LastGood
from .config.reload import InForce
from .config.sources import Source
from .config.strict_yaml import ConfigError
from .gpus.driver import DriverReplaced
from .gpus.health import QUIET
from .gpus.time_slices import TimeSlices
from .gpus.watch import GpuWatch
from .kubelet.handover import Handover, checkpoint_of, kept
from .kubelet.holders import HolderWatch
from .kubelet.manager import Manager
from .kubelet.server import Published, Snapshot
from .kubelet.vanished import Vanished
from .mps import units
from .mps.reconciler import Reconciler
from .observer import Observer
from .offer.decide import MpsState, Offered, decide, narrow, time_slices
from .report.state import Report, Telemetry, daemons_pages, state
from .tools import logs
from .tools.chores import Chore, Wakeup, errors
from .tools.logs import notify

TICK: Final = 0.5
FEED: Final = 5.0  # seconds between two feeds of the watchdog, which waits for six times as long


@dataclass(frozen=True)
class Paths:
    """Where things are, and how often to look."""

    kubelet_socket: Path
    status_file: Path
    host_root: Path = Path("/")
    rescan: float = 5.0
    quiet: float = QUIET
    mps_managers: str = ""
    state_directory: Path | None = None


class Daemon:
    """The main loop decides and publishes. It never waits for NVML, which has a thread of its own.

    NodeError: the configuration can't be used.
    """

    def __init__(self, paths: Paths, source: Source) -> None:
        root, run = paths.host_root, paths.status_file.parent
        observer, self._wakeup = Observer(), Wakeup()
        last_good = LastGood(source, paths.state_directory)
        self._configuration = InForce(source, last_good, root, observer)
        wake = self._wakeup.set
        self._gpus = GpuWatch(root, run, paths.rescan, paths.quiet, observer, wake)
        self._host, self._slices = HostFiles(root, run), TimeSlices(run, root)
        self._mps = Reconciler(run / "mps", units.choose(paths.mps_managers, run / "mps"))
        self._offered, self._published = Offered(), Published(observer)
        self._manager = Manager(paths.kubelet_socket, self._published)
        kubelet = paths.kubelet_socket.parent.parent
        kept_in = paths.state_directory or run
        self._holders, self._vanished = HolderWatch(kubelet, kept_in, wake), Vanished()
        self._handover = Handover(kubelet, kept(checkpoint_of(root)))
        self._telemetry = Telemetry(
            lambda: daemons_pages(observer, lambda: self._configuration.config.mps_root)
        )
        self._report = Report(paths.status_file, observer)
        self._stopping = self._asked = False
        self._tick, self._feed = min(TICK, paths.rescan), logs.watchdog(FEED)
        self._fed_at = 0.0
        self._reconcile = Chore("mps", "MPS daemons can't be looked after", self._mps.tick)
        self._advertise = Chore("devices", "devices can't be brought up to date", self._decide)
        self._register = Chore("kubelet", "the kubelet can't be served", self._manager.tick)
        self._chores = (
            *(*self._gpus.chores, *self._host.chores, self._reconcile, self._advertise),
            *(self._register, self._slices.chore, self._report.chore, self._telemetry.chore),
            *(last_good.chore, *self._holders.chores),
        )

    def run(self) -> int:
        """Run until a signal ends it. Returns the exit status. DriverReplaced: start another process."""
        os.umask(0o077)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._configuration.log("started", version=__version__)
        try:
            self._gpus.first_look(self._configuration.config, self._pause)
            self._holders.first_answer(self._pause)
            self._round()
            problem = self._gpus.inventory.absent or self._offered.refusal
            if problem and self._configuration.config.fail_on_init_error:
                logs.error("ends, since failOnInitError is set", cause=problem)
                return 1
            notify("READY=1")
            while not self._stopping:
                self._telemetry.chore.run(self._configuration.config.metrics)
                self._wakeup.wait(self._tick)
                self._round()
        finally:
            if self._stopping:
                notify("STOPPING=1")
            self._telemetry.stop()
            self._manager.stop()
            self._mps.close()
            self._report.remove()
        logs.info("stopped")
        return 0

    def _pause(self) -> bool:
        self._wakeup.wait(self._tick)
        return not self._stopping

    def _round(self) -> None:
        asked, self._asked = self._asked, False
        if asked:
            notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        before = self._configuration.config
        news = self._configuration.reload(self._check_change, asked=asked)
        config = self._configuration.config
        if config.driver_roots != before.driver_roots:
            raise DriverReplaced  # a library that is loaded stays for the life of a process
        news |= self._gpus.tick(config, at_once=asked)
        waiting = bool(self._offered.held or self._vanished.found)
        news |= self._holders.tick(waiting=waiting)
        if self._reconcile.run() or news or not self._advertise.ran:
            self._advertise.run()
        self._register.run()
        if self._holders.settled:
            self._vanished.look(self._holders.answer, self._gpus.inventory)
        if self._manager.folder.lost():
            logs.error("the kubelet's folder was recreated, and only a new process can write there")
            self._stopping = True
        self._report_state(*(["READY=1"] if asked else []))

    def _check_start(self, config: Config) -> bool:
        """Refuse a configuration that the node does not allow. Returns whether that is known."""
        known = self._handover.check(self._gpus.inventory, config.dra)
        return self._check_mps(config) and known

    def _check_change(self, config: Config) -> bool:
        """Refuse one that does not go with what is in force."""
        before = self._configuration.config.dra
        known = self._handover.check(self._gpus.inventory, config.dra, before)
        return self._check_mps(config) and known

    def _check_mps(self, config: Config) -> bool:
        """Refuse a configuration that asks for shares which the devices can't have now.

        Returns whether that is known.
        """
        inventory = self._gpus.inventory
        offered = decide(inventory, {}, config)
        if inventory.absent or offered.refusal:
            return False
        if why := offered.crowded:
            raise ConfigError(f"sharing can't be as it is: {why}", hint="choose fewer replicas")
        if why := offered.unsharable or self._mps.refuses(offered.mps):
            raise ConfigError(f"sharing.mps can't be as it is: {why}")
        return True

    def _decide(self) -> None:
        """Decide what is advertised, and publish it."""
        self._configuration.judge(self._check_start)
        config, inventory = self._configuration.config, self._gpus.inventory
        host, faults = self._host.look(config), self._gpus.faults()
        mps = self._mps_state(self._offered)
        holders = self._holders.holders
        offered = decide(inventory, faults, config, mps, host, holders)
        if not inventory.absent and not offered.refusal:
            self._mps.want(offered.mps, config.mps_root, offered.held)
            if (now := self._mps_state(offered)) != mps:
                offered = decide(inventory, faults, config, now, host, holders)
            self._slices.begin(time_slices(offered.resources), inventory, offered.held)
            self._holders.offered(offered, inventory)
            notes = narrow(offered, self._offered, inventory)
            offered = replace(offered, notes=(*offered.notes, *notes))
        if offered.refusal and str(offered.refusal) != str(self._offered.refusal):
            logs.error("no devices are advertised", cause=offered.refusal)
        for note in offered.notes:
            if note not in self._offered.notes:
                logs.warning(note)
        self._offered = offered
        self._published.put(Snapshot(offered.resources, config, host, self._gpus.topology))

    def _mps_state(self, offered: Offered) -> MpsState:
        without_shm = frozenset(one for one in offered.mps if not self._mps.own_shm(one))
        return MpsState(self._mps.problems(), without_shm)

    def _report_state(self, *lines: str) -> None:
        """Report to the status file, the metrics and systemd."""
        lines += self._report.write(
            state(
                self._configuration,
                self._gpus,
                self._offered,
                self._manager,
                self._vanished.describe(),
                self._mps.describe(),
                errors(self._chores),
            )
        )
        if time.monotonic() - self._fed_at >= self._feed:  # the loop goes round: all else may hang
            self._fed_at = time.monotonic()
            self._report.still_true()
            lines += ("WATCHDOG=1",)
        if lines:
            notify(*lines)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._asked |= number == signal.SIGHUP
        self._stopping |= number != signal.SIGHUP
        self._wakeup.set()
