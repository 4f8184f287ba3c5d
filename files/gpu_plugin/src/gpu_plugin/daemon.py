# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon: what is known of the GPUs decides what is advertised, which is served until it changes."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from . import __version__
from ._shared._node.quarantine import data_of
from .advertise.decide import Advertised, MpsState, decide, narrow, time_slices
from .cdi.files import HostFiles
from .config.configuration import Config
from .config.reload import InForce, LastGood
from .config.sources import Source
from .config.strict_yaml import ConfigError
from .driver.health import QUIET
from .driver.time_slices import TimeSlices
from .driver.watch import GpuWatch
from .kubelet.handover import Handover, checkpoint_of, read_claims
from .kubelet.holders import HolderWatch, Vanished
from .kubelet.manager import Manager
from .kubelet.server import Published, Snapshot
from .mps import units
from .mps.reconciler import Reconciler
from .observer import Observer
from .report.telemetry import Telemetry, daemons_pages
from .tools import logs
from .tools.chores import Chore, errors
from .tools.files import StateFile
from .tools.process import Process

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


class Daemon(Process):
    """The main loop decides and publishes. It never waits for NVML, which has a thread of its own.

    NodeError: the configuration can't be used.
    """

    def __init__(self, paths: Paths, source: Source) -> None:
        root, run = paths.host_root, paths.status_file.parent
        feed = logs.watchdog(FEED)
        super().__init__(StateFile(paths.status_file), min(TICK, paths.rescan), feed)
        self._observer = observer = Observer()
        last_good = LastGood(source, paths.state_directory)
        self._configuration = InForce(source, last_good, root, observer)
        self._gpus = GpuWatch(
            root, run, paths.rescan, paths.quiet, observer, self.wake, paths.state_directory
        )
        self._host, self._slices = HostFiles(root, run), TimeSlices(run, root)
        self._mps = Reconciler(run / "mps", units.choose(paths.mps_managers, run / "mps"))
        self._advertised, self._published = Advertised(), Published(observer)
        self._manager = Manager(paths.kubelet_socket, self._published)
        kubelet = paths.kubelet_socket.parent.parent
        kept_in = paths.state_directory or run
        claims, self._vanished = read_claims(checkpoint_of(root)), Vanished()
        self._holders = HolderWatch(kubelet, kept_in, self.wake, claims=claims)
        self._handover = Handover(kubelet, claims, lambda: self._gpus.inventory)
        self._telemetry = Telemetry(
            lambda: daemons_pages(
                observer, self.last, lambda: self._configuration.config.sharing.mps_root
            )
        )
        self._reconcile = Chore("mps", "MPS control daemons can't be looked after", self._mps.tick)
        self._advertise = Chore("devices", "devices can't be brought up to date", self._decide)
        self._register = Chore("kubelet", "the kubelet can't be served", self._manager.tick)
        self._chores = (
            *(*self._gpus.chores, *self._host.chores, self._reconcile, self._advertise),
            *(self._register, self._slices.chore, self.written, self._telemetry.chore),
            *(last_good.chore, *self._holders.chores),
        )

    def begin(self) -> int:
        """Look at the GPUs, and serve them."""
        os.umask(0o077)
        self._configuration.log("started", version=__version__)
        self._gpus.first_look(self._configuration.config, super().pause)
        self._holders.first_answer(super().pause)
        self.round()
        problem = self._gpus.inventory.absent or self._advertised.refusal
        if problem and self._configuration.config.driver.fail_on_init_error:
            logs.error("ends, since failOnInitError is set", cause=problem)
            return 1
        return 0

    def pause(self) -> bool:
        """Serve the metrics, which are loaded once all else is there, and wait for the next round."""
        self._telemetry.chore.run(self._configuration.config.metrics)
        return super().pause()

    def close(self) -> None:
        """Stop serving."""
        self._telemetry.stop()
        self._manager.stop()
        self._mps.close()
        self.status.remove()

    def round(self) -> None:
        """Decide and publish. DriverReplaced: start another process."""
        asked = self.reloading()
        news = self._configuration.reload(self._check_change, asked=asked)
        news |= self._gpus.tick(self._configuration.config, at_once=asked)
        waiting = bool(self._advertised.held or self._vanished.allocations)
        news |= self._holders.tick(waiting=waiting)
        if self._reconcile.run() or news or not self._advertise.ran:
            self._advertise.run()
        if self._holders.knows_kubelet:  # or it might give away what a container has
            self._register.run()
        if self._holders.settled:
            self._vanished.look(self._holders.answer, self._gpus.inventory)
        if self._manager.folder.lost():
            logs.error("the kubelet's folder was recreated, and only a new process can write there")
            self.stopping = True
        self._tell()

    def _check_start(self, config: Config) -> bool:
        """Refuse a configuration that the node does not allow. Returns whether that is known."""
        known = self._handover.check(config.dra)
        return self._check_mps(config) and known

    def _check_change(self, config: Config) -> bool:
        """Refuse one that does not go with what is in force."""
        before = self._configuration.config.dra
        known = self._handover.check(config.dra, before)
        return self._check_mps(config) and known

    def _check_mps(self, config: Config) -> bool:
        """Refuse a configuration that asks for shares which the devices can't have now.

        Returns whether that is known.
        """
        if self._gpus.inventory.absent:
            return False
        advertised = decide(self._gpus.inventory, {}, config)
        if advertised.refusal:
            return False
        if why := advertised.crowded:
            raise ConfigError(f"sharing can't be as it is: {why}", hint="choose fewer replicas")
        if why := advertised.unsharable or self._mps.refuses(advertised.mps):
            raise ConfigError(f"sharing.mps can't be as it is: {why}")
        return True

    def _decide(self) -> None:
        """Decide what is advertised, and publish it."""
        self._configuration.judge(self._check_start)
        config, inventory = self._configuration.config, self._gpus.inventory
        host, faults = self._host.look(config), self._gpus.faults()
        advertised = decide(inventory, faults, config, host, self._holders.holders)
        serves = not inventory.absent and not advertised.refusal
        if serves:
            self._mps.want(advertised.mps, config.sharing.mps_root, advertised.held)
        without_shm = frozenset(uuid for uuid in advertised.mps if not self._mps.own_shm(uuid))
        advertised = advertised.judged(MpsState(self._mps.problems(), without_shm))
        if serves:
            slices = time_slices(advertised.resources)
            if slices or not self._slices.idle:
                self._slices.begin(slices, inventory, advertised.held)
            self._holders.advertised(advertised, inventory)
            notes = narrow(advertised, self._advertised, inventory)
            advertised = replace(advertised, notes=(*advertised.notes, *notes))
        if advertised.refusal and str(advertised.refusal) != str(self._advertised.refusal):
            logs.error("no devices are advertised", cause=advertised.refusal)
        for note in advertised.notes:
            if note not in self._advertised.notes:
                logs.warning(note)
        self._advertised = advertised
        self._published.put(Snapshot(advertised.resources, config, host, self._gpus.topology))

    def _tell(self) -> None:
        """Report to the status file, the metrics and systemd."""
        state, resources = self._state(), self._advertised.resources
        served = (
            f"serving: {sum(map(len, resources.values()))} devices of {len(resources)} resources"
        )
        self.report(state, state["problem"] or served)

    def _state(self) -> dict[str, Any]:
        """Return what the daemon does at the moment as JSON can hold it; the file has the process besides.

        A resource's devices are by UUID: of thousands of shares of a few GPUs there would be too much to read.
        ``health`` has an entry for each GPU or MIG instance that is unhealthy, whatever it is advertised as;
        ``verdicts`` say what is to be done about GPUs, by UUID.
        """
        configuration, gpus, inventory = self._configuration, self._gpus, self._gpus.inventory
        advertised, registered = self._advertised, self._manager.registered()
        absent, refusal = inventory.absent, advertised.refusal
        return {
            "version": __version__,
            "config_sha256": configuration.digest,
            "config_problem": configuration.problem or None,
            "config_fallback": configuration.fallback,
            "driver_version": None if absent else inventory.driver_version,
            "state": "waiting_for_driver" if absent else "refused" if refusal else "serving",
            "problem": absent or (str(refusal) if refusal else None),
            "resources": {
                name: {
                    "devices": devices.health,
                    "problems": devices.problems,
                    "causes": devices.causes,
                    "shares": devices.shares,
                    "registered": registered.get(name, False),
                }
                for name, devices in advertised.resources.items()
            },
            "registration_problem": self._manager.problem(),
            "vanished": self._vanished.describe(),
            "mps": self._mps.describe(),
            "chores": errors(self._chores),
            "quarantine": data_of(inventory.quarantine),
            "health": [asdict(unhealthy) for unhealthy in gpus.unhealthy()],
            "verdicts": gpus.verdicts(),
            "devices": [
                {"uuid": uuid, "index": index, "reason": reason}
                for devices in advertised.resources.values()
                for (uuid, index), reason in devices.reasons.items()
            ],
            "settings": [asdict(setting) for setting in gpus.settings],
            "slow": sorted(inventory.slow),
            "unreadable": [str(problem) for problem in inventory.strangers],
            "gpu_uuids": [view.gpu.uuid for view in inventory.gpus],
            "gpu_indices": [str(view.gpu.index) for view in inventory.gpus],
            "mig_uuids": inventory.mig_uuids,
        }
