# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's daemon: decides which devices to advertise, and serves them to the kubelet until that changes."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from . import __version__
from ._shared._node.quarantine import data_of
from .advertise.decide import Advertised, MpsState, decide, narrow, time_slices
from .cdi.files import HostFiles
from .config.allocation import Dra
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

TICK: Final = 0.5  # seconds between two rounds, unless something wakes the loop
FEED: Final = 5.0  # seconds between two feeds of the watchdog, which waits for six times as long


@dataclass(frozen=True)
class Settings:
    """The settings that come from the command line alone, since a reload can't change them.

    Attributes:
        kubelet_socket: The socket that device plugins register at.
        status_file: Where the state is reported; files of this run are in its folder.
        host_root: Where the host's / is mounted.
        rescan: Seconds between two scans of the GPUs.
        quiet: Seconds without a fault after which a GPU is healthy again.
        mps_managers: What runs the managers of MPS daemons: systemd, own, or empty to choose.
        state_directory: The folder that survives a reboot, if there is one.
    """

    kubelet_socket: Path
    status_file: Path
    host_root: Path = Path("/")
    rescan: float = 5.0
    quiet: float = QUIET
    mps_managers: str = ""
    state_directory: Path | None = None


class Daemon(Process):
    """The main loop decides and publishes. It never waits for NVML, which has a thread of its own.

    Raises:
        NodeError: if the configuration can't be used.
    """

    def __init__(self, settings: Settings, source: Source) -> None:
        root, run = settings.host_root, settings.status_file.parent
        state_directory = settings.state_directory
        feed = logs.watchdog(FEED)
        super().__init__(StateFile(settings.status_file), min(TICK, settings.rescan), feed)
        self._observer = observer = Observer()
        last_good = LastGood(source, state_directory)
        self._configuration = InForce(source, last_good, root, observer)
        self._gpus = GpuWatch(
            root, run, settings.rescan, settings.quiet, observer, self.wake, state_directory
        )
        self._host, self._slices = HostFiles(root, run), TimeSlices(run, root)
        self._mps = Reconciler(run / "mps", units.choose(settings.mps_managers, run / "mps"))
        self._advertised, self._published = Advertised(), Published(observer)
        self._manager = Manager(settings.kubelet_socket, self._published)
        kubelet_root = settings.kubelet_socket.parent.parent
        claims, self._vanished = read_claims(checkpoint_of(root)), Vanished()
        self._holders = HolderWatch(kubelet_root, state_directory or run, self.wake, claims=claims)
        self._handover = Handover(kubelet_root, claims, lambda: self._gpus.inventory)
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
        """Scan the GPUs, ask the kubelet what pods hold, and serve the devices. Return the exit status."""
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
        """Serve the metrics, then wait for the next round. Return whether the loop goes on.

        Their libraries take long to load, so that devices are served first.
        """
        self._telemetry.chore.run(self._configuration.config.metrics)
        return super().pause()

    def close(self) -> None:
        """Stop serving, and remove the status file."""
        self._telemetry.stop()
        self._manager.stop()
        self._mps.close()
        self.status.remove()

    def round(self) -> None:
        """Decide, publish and report.

        Raises:
            DriverReplaced: if only a new process can load the driver's library.
        """
        reload_requested = self.reloading()
        before = self._configuration.config.dra
        check = partial(self._check, before=before)
        changed = self._configuration.reload(check, asked=reload_requested)
        changed |= self._gpus.tick(self._configuration.config, at_once=reload_requested)
        waiting = bool(self._advertised.held or self._vanished.allocations)
        changed |= self._holders.tick(waiting=waiting)
        if self._reconcile.run() or changed or not self._advertise.ran:
            self._advertise.run()
        # A kubelet that has forgotten its allocations would give a container's device to a second one.
        if self._holders.knows_kubelet:
            self._register.run()
        if self._holders.settled:
            self._vanished.look(self._holders.answer, self._gpus.inventory)
        if self._manager.folder.lost():
            logs.error("the kubelet's folder was recreated, and only a new process can write there")
            self.stopping = True
        state, resources = self._state(), self._advertised.resources
        devices = sum(map(len, resources.values()))
        served = f"serving: {devices} devices of {len(resources)} resources"
        self.report(state, state["problem"] or served)

    def _check(self, config: Config, before: Dra | None = None) -> bool:
        """Refuse a configuration that the node does not allow, or that can't replace the one of ``before``.

        Returns:
            Whether the node could be asked; False while the driver or the kubelet does not answer.

        Raises:
            ConfigError: if a GPU would be allocated twice, or can't be shared as configured.
        """
        could_check = self._handover.check(config.dra, before)
        if self._gpus.inventory.absent:
            return False
        advertised = decide(self._gpus.inventory, {}, config)
        if advertised.refusal:
            return False
        if problem := advertised.crowded:
            raise ConfigError(f"sharing can't be as it is: {problem}", hint="choose fewer replicas")
        if problem := advertised.unsharable or self._mps.refuses(advertised.mps):
            raise ConfigError(f"sharing.mps can't be as it is: {problem}")
        return could_check

    def _decide(self) -> None:
        """Decide which devices are advertised, bring MPS and time slices in step, and publish them."""
        self._configuration.judge(self._check)
        config, inventory = self._configuration.config, self._gpus.inventory
        host, faults = self._host.look(config), self._gpus.faults()
        advertised = decide(inventory, faults, config, host, self._holders.holders)
        # Without a driver, or with a refusal, the daemons of MPS and the time slices stay as they are.
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

    def _state(self) -> dict[str, Any]:
        """Return the daemon's state for the status file and the metrics, as JSON can hold it.

        Devices are listed by UUID with the number of their shares, since a few GPUs may have thousands of them.
        ``health`` has an entry for each GPU or MIG instance that is unhealthy, however it is advertised;
        ``verdicts`` say by UUID how a GPU can be repaired.
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
            "gated": inventory.gated,
            "health": [asdict(unhealthy) for unhealthy in gpus.unhealthy()],
            "verdicts": gpus.verdicts(),
            "devices": [
                {"uuid": uuid, "index": index, "reason": reason}
                for devices in advertised.resources.values()
                for (uuid, index), reason in devices.reasons.items()
            ],
            "settings": [setting.describe() for setting in gpus.settings],
            "slow": sorted(inventory.slow),
            "unreadable": [str(problem) for problem in inventory.strangers],
            "gpu_uuids": [view.gpu.uuid for view in inventory.gpus],
            "gpu_indices": [str(view.gpu.index) for view in inventory.gpus],
            "mig_uuids": inventory.mig_uuids,
        }
