# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon: looks at the driver, keeps the kubelet up to date, and tells how it is."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from . import __version__, logs
from ._shared._core.device_nodes import CONTROL_NODES
from ._shared._core.gpu import NvmlError
from .cdi.added import CdiAdded
from .cdi.file import CdiFile
from .cdi.specification import IMEX_FOLDER
from .config.configuration import CDI, Config, hook_program
from .config.strict_yaml import ConfigError
from .config.visible import told
from .config.watch import ConfigWatch
from .gpus.driver import Driver
from .gpus.health import QUIET, Health
from .gpus.health_file import NAME, HealthFile
from .gpus.time_slices import TimeSlices
from .gpus.xid_log import XidLog
from .kubelet.manager import Manager
from .mps.reconciler import units
from .mps.reconciler.reconciler import Reconciler
from .notify import notify
from .observer import NVML_ERRORS, RELOADS, XIDS, Observer
from .offer.allocation import Surroundings
from .offer.decide import decide, without_driver
from .offer.devices import EnumerationRefused, Inventory, remember
from .offer.replicas import time_slices
from .report.service import Telemetry
from .status import StatusFile

TICK: Final = 0.5
RETRY: Final = 1.0
FEED: Final = 5.0  # seconds between two words to the watchdog, which waits for 30


class DriverReplaced(Exception):
    """The driver on disk is another one; only a new process can use it."""


@dataclass(frozen=True)
class Loaded:
    """A configuration and the digest of the file it came from."""

    config: Config
    digest: str


@dataclass(frozen=True)
class Places:
    """Where things are, and how often to look."""

    config: Path
    kubelet_socket: Path
    status_file: Path
    host_root: Path = Path("/")
    rescan: float = 5.0
    quiet: float = QUIET
    mps_managers: str = ""


class Bell:
    """Wakes the main thread. Unlike threading.Event it may be rung by a signal handler."""

    def __init__(self) -> None:
        self._ear, self._button = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """End a wait, or the next one."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full of rings
            os.write(self._button, b"!")

    def wait(self, seconds: float) -> None:
        """Wait until somebody rings, at most for so long."""
        if select.select([self._ear], [], [], seconds)[0]:
            os.read(self._ear, 4096)


class Daemon:
    """Everything runs in the main thread, but XIDs, which arrive in a queue, and gRPC's answers."""

    def __init__(self, places: Places, load: Callable[[], Loaded]) -> None:
        self._places = places
        self._load = load
        self._watch = ConfigWatch(places.config)  # before it is read, so that no change is missed
        self._config_problem = ""
        self._loaded = load()
        self._bell = Bell()
        self._stopping = self._reloading = self._failing = False
        self._driver = Driver(places.host_root, self._bell.ring)
        self._health = Health(places.quiet)
        self._health.overrides = self._loaded.config.xids
        self._health_file = HealthFile(places.status_file.with_name(NAME), places.host_root)
        self._health_file.read(self._health, self._driver.load, self._driver.generation)
        self._cdi = CdiFile(places.host_root)
        self._cdi_added = CdiAdded(places.host_root)
        self._observer = Observer()
        self._telemetry = Telemetry(self._observer, lambda: self._loaded.config.mps_root)
        self._xid_log = XidLog()
        self._manager = Manager(places.kubelet_socket, self._surroundings, observer=self._observer)
        self._status = StatusFile(places.status_file)
        managers = places.status_file.parent / "mps"
        self._mps = Reconciler(managers, units.choose(places.mps_managers, managers))
        self._slices = TimeSlices()
        self._inventory: Inventory | None = None
        self._absent: NvmlError | None = None
        self._refused: EnumerationRefused | None = None
        self._notes: tuple[str, ...] = ()
        self._scan_at = 0.0
        self._alive_at = 0.0

    def run(self) -> int:
        """Run until a signal ends it. Returns the exit status."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_signal)
        logs.info("started", version=__version__, **asdict(self._loaded.config))
        self._warn()
        try:
            self._scan()
            problem = self._absent or self._refused
            if problem and self._loaded.config.fail_on_init_error:
                logs.error("ends, since failOnInitError is set", cause=problem)
                return 1
            self._manager.tick()
            self._tell("READY=1")
            while not self._stopping:
                self._telemetry.serve(self._loaded.config.metrics)
                self._bell.wait(TICK)
                self._round()
        finally:
            if self._stopping:
                notify("STOPPING=1")
            self._telemetry.stop()
            self._manager.stop()
            self._mps.close()
            self._status.remove()
        logs.info("stopped")
        return 0

    # --- one round ---

    def _round(self) -> None:
        """Do a round. What the machine refuses for the moment, such as descriptors, ends nothing.

        The watchdog is not fed by a round that failed: what stays so is ended by systemd.
        """
        try:
            self._step()
        except OSError as error:
            if not self._failing:
                logs.error("a pass of the main loop failed, trying again", cause=error)
            self._failing = True
            return
        if self._failing:
            logs.info("the main loop works again")
        self._failing = False

    def _step(self) -> None:
        asked, self._reloading = self._reloading, False
        if asked:
            notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        reloading = (asked or self._watch.changed()) and self._reload(asked)
        noted = self._note_xids() | self._mps.tick()
        if asked or reloading or time.monotonic() >= self._scan_at:
            self._scan()
        elif noted:
            self._offer()
        self._manager.tick()
        self._tell(*(["READY=1"] if asked else []), *self._alive())

    def _alive(self) -> list[str]:
        """Return the watchdog's line, if it is time for it again."""
        now = time.monotonic()
        if now < self._alive_at:
            return []
        self._alive_at = now + FEED
        self._status.still_true()
        return ["WATCHDOG=1"]

    def _reload(self, asked: bool) -> bool:
        """Take the configuration on disk. Returns whether it is another one, or was asked for."""
        before = self._loaded
        try:
            self._loaded = self._load()
            self._check_mps()
        except (ConfigError, OSError) as error:
            logs.error("configuration refused, the one before stays", cause=error)
            self._config_problem = str(error)
            self._loaded = before
            self._observer.count(RELOADS, "refused")
            return False
        self._config_problem = ""
        self._observer.count(RELOADS, "accepted")
        if self._loaded == before and not asked:
            return False
        config = self._loaded.config
        logs.info("configuration loaded", **asdict(config))
        self._warn()
        self._health.overrides = config.xids
        if config.driver_roots != before.config.driver_roots:
            raise DriverReplaced  # a library that is loaded stays for the life of a process
        return True

    def _warn(self) -> None:
        """Say what the configuration in force leaves open."""
        if words := told(self._loaded.config, self._places.host_root):
            logs.warning(words)

    def _check_mps(self) -> None:
        """Refuse a configuration that asks for shares which the devices can't have now."""
        if self._inventory is None or self._absent:
            return
        offered = decide(self._inventory, self._loaded.config)
        if offered.refusal:
            return
        if why := offered.unsharable or self._mps.refuses(offered.mps):
            raise ConfigError(f"sharing.mps can't be as it is: {why}")

    def _note_xids(self) -> bool:
        noted = False
        with contextlib.suppress(queue.Empty):
            while True:
                xid = self._driver.xids.get_nowait()
                noted |= self._health.xid(*xid)
                self._xid_log.heard(xid)
                self._observer.count(XIDS, xid.gpu_uuid, str(xid.number))
        self._xid_log.tick()
        return noted

    def _scan(self) -> None:
        try:
            found = self._driver.scan(*self._loaded.config.driver_roots)
        except NvmlError as error:
            self._observer.count(NVML_ERRORS, str(error.code))
            if self._driver.replaced(error):
                raise DriverReplaced from error
            if self._absent is None or self._absent.code != error.code:
                logs.warning("waiting for the driver", cause=error)
            self._absent = error
        else:
            if self._absent is not None:
                logs.info("the driver is there", version=found.driver_version)
            if found.unreadable and not (self._inventory and self._inventory.unreadable):
                logs.warning("a GPU does not answer", cause=found.unreadable[0])
            self._absent = None
            self._inventory = remember(self._inventory, found)
        config = self._loaded.config
        if set(CDI) & set(config.device_list_strategies):
            self._cdi.refresh(hook_program(config), config.cdi_disabled_hooks)
        self._cdi_added.refresh(config)
        self._offer()
        if self._inventory and not self._absent:  # after the offer: it may take a while
            self._manager.topology = self._driver.connect(self._inventory)
            self._slices.want(time_slices(self._manager.devices()), self._driver.generation)
        pause = RETRY if self._absent else self._places.rescan
        self._scan_at = time.monotonic() + pause

    def _offer(self) -> None:
        """Give the manager the devices as they are now."""
        config = self._loaded.config
        offered = decide(self._current(), config)
        seen = self._inventory and not self._absent
        if seen and not offered.refusal and (why := self._mps.refuses_to_begin(offered.mps)):
            offered = offered.refused(why)
        if offered.refusal and str(offered.refusal) != str(self._refused):
            logs.error("no devices are advertised", cause=offered.refusal)
        self._refused = offered.refusal
        for note in offered.notes:
            if note not in self._notes:
                logs.warning(note)
        self._notes = offered.notes
        if seen and not self._refused:
            self._mps.want(offered.mps, config.mps_root)
        self._health_file.write(self._health, self._driver.load)  # what is told outlives a kill
        self._manager.sync(offered.held_back(self._mps.problems(), self._mps.own_shm), config)

    def _current(self) -> Inventory:
        if self._inventory is None:
            return Inventory(driver_version="")
        if self._absent is None:
            return self._health.judge(self._inventory, self._driver.generation)
        return without_driver(self._inventory, str(self._absent))

    # --- telling ---

    def _tell(self, *lines: str) -> None:
        state = self._state()
        self._observer.round(state)
        if self._status.write(state):
            count = sum(len(one["devices"]) for one in state["resources"].values())
            words = f"{state['state']}: {count} devices of {len(state['resources'])} resources"
            lines = (*lines, f"STATUS={state['problem'] or words}")
        if lines:
            notify(*lines)

    def _state(self) -> dict[str, Any]:
        inventory, problem = self._inventory, self._absent or self._refused
        registered = self._manager.registered()
        name = "waiting_for_driver" if self._absent else "refused" if self._refused else "serving"
        return {
            "version": __version__,
            "pid": os.getpid(),
            "config_sha256": self._loaded.digest,
            "config_problem": self._config_problem or None,
            "driver_version": inventory.driver_version if inventory and not self._absent else None,
            "state": name,
            "problem": str(problem) if problem else None,
            "resources": {
                resource: {
                    "devices": devices.health,
                    "problems": devices.problems,
                    "registered": registered[resource],
                }
                for resource, devices in self._manager.devices().items()
            },
            "mps": self._mps.describe(),
            "gpu_uuids": [view.gpu.uuid for view in inventory.gpus] if inventory else [],
            "mig_uuids": inventory.mig_uuids if inventory else [],
        }

    def _surroundings(self) -> Surroundings:
        root = str(self._places.host_root).rstrip("/") + self._loaded.config.dev_root.rstrip("/")
        channels = self._loaded.config.imex_channels
        return Surroundings(
            tuple(path for path in CONTROL_NODES if os.path.exists(root + path)),
            tuple(one for one in channels if os.path.exists(f"{root}{IMEX_FOLDER}/channel{one}")),
            self._cdi.names,
            self._cdi_added.names,
        )

    def _on_signal(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            self._reloading = True
        else:
            self._stopping = True
        self._bell.ring()


def run(places: Places, load: Callable[[], Loaded]) -> int:
    """Run the daemon. NodeError: the configuration can't be used."""
    os.umask(0o077)
    return Daemon(places, load).run()
