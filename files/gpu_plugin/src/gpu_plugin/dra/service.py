# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process of the DRA driver: it publishes the GPUs, and prepares claims on them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from .. import __version__
from .._shared._base.dra import names
from .._shared._base.dra.checkpoint import PreparedClaim
from .._shared._base.gpu import Gpu
from .._shared._base.services.mig import LOCK as MIG_LOCK
from .._shared._node.quarantine import data_of
from ..cluster.access import Access
from ..cluster.kubeconfig import NameWatch
from ..cluster.rate import Rate
from ..config.allocation import Dra, owner
from ..config.configuration import Config
from ..config.reload import InForce, LastGood
from ..config.sources import Source
from ..driver.health import QUIET
from ..driver.watch import GpuWatch
from ..kubelet.handover import Handover
from ..kubelet.listener import Folder
from ..model.inventory import Faults, judged
from ..observer import REFUSALS, Observer
from ..report.telemetry import Telemetry
from ..slices import build
from ..tools import logs
from ..tools.chores import Chore, Worker, errors
from ..tools.files import StateFile
from ..tools.process import Process
from ..tools.status import DRA_FOLDER
from . import report
from .enforcement.choice import Enforcements, Places
from .health import HealthNews, health
from .prepare.apply import Checkpoint, Forgotten, Preparer, Snapshot
from .prepare.cdi import ClaimFiles
from .prepare.claims import ClaimApi
from .prepare.mig import Instances, Made
from .prepare.plan import check_published
from .publish import Publisher
from .server import Calls, Driver
from .slice_api import SliceApi
from .users import Users

TICK: Final = 0.5
LOOK: Final = 30.0  # seconds between two looks for claims that the kubelet has forgotten
LEAVE: Final = 10.0  # seconds that slices may take to go at the end
FEED: Final = 5.0  # seconds between two feeds of the watchdog, which waits for 30
# Of requests: the kubelet limits its own, and each of its calls is one here.
NO_LIMIT: Final = Rate(-1)


@dataclass(frozen=True)
class Paths:
    """The places of files, and the node's name."""

    node: str
    kubeconfig: str = ""
    host_root: Path = Path("/")
    socket: Path = Path(names.SOCKET)
    registration: Path = Path(names.REGISTRATION)
    checkpoint: Path = Path(names.CHECKPOINT)
    status_file: Path = Path(names.STATUS)
    mig_lock: Path = Path(MIG_LOCK)
    mps_managers: str = ""
    metrics: tuple[str, int] | None = None
    rescan: float = 5.0
    named: str = ""  # the node's name where the user has chosen it


class Service(Process):
    """The main loop looks and publishes; claims are prepared in threads of their own.

    Raises:
        NodeError: if the configuration or the checkpoint can't be used.
    """

    # After SIGUSR1 the end is for good: the slices go first.
    SIGNALS = (*Process.SIGNALS, signal.SIGUSR1)

    def __init__(self, paths: Paths, source: Source) -> None:
        super().__init__(StateFile(paths.status_file, compact=True), TICK, FEED)
        self._paths = paths
        root, run = paths.host_root, paths.status_file.parent
        self._observer = Observer()
        last_good = LastGood(source, paths.checkpoint.parent)
        self._configuration = InForce(source, last_good, root, self._observer)
        self._checkpoint = Checkpoint(paths.checkpoint)
        kubelet = paths.registration.parent.parent
        self._handover = Handover(kubelet, self._held, lambda: self._gpus.inventory)
        # Beside the daemon's own: each keeps what it knows of faults.
        folder = run / DRA_FOLDER
        look = paths.rescan, QUIET, self._observer, self.wake, paths.checkpoint.parent
        self._gpus = GpuWatch(root, folder, *look)
        users, config = Users(kubelet), self._configuration.config
        places = Places(root, run, config.sharing.mps_root, paths.mps_managers, users)
        self._enforcements = Enforcements(config.dra, places, self._checkpoint.shares)
        self._access = Access(paths.kubeconfig, NO_LIMIT)
        self._files = ClaimFiles(root)
        api = ClaimApi(self._access, paths.node)
        self._preparer = Preparer(
            self._checkpoint,
            api,
            self._files,
            Instances(root, paths.mig_lock),
            self._enforcements,
            Snapshot(config, self._gpus.inventory),
            users,
        )
        self._publisher = Publisher(SliceApi(self._access, paths.node), paths.node)
        self._name = NameWatch(paths.named, paths.kubeconfig, paths.node)
        self._slices: tuple[dict[str, Any], ...] = ()
        self._pool = paths.node  # as earlier releases name it
        self._built_from: Any = None
        self._made = Made()
        self._health = HealthNews()
        calls = Calls(self._preparer, self._took)
        self._driver = Driver(paths.socket, paths.registration, calls, self._health)
        self._folders = tuple(Folder(path.parent) for path in (paths.registration, paths.socket))
        self._telemetry = Telemetry(lambda: report.build_pages(self._observer, self.last))
        self._restored = False
        self._faults: Faults = {}
        self._described = self._files.seen
        self._refreshing = Worker("refresh")
        self._restore = Chore("restore", "what claims hold can't be taken up", self._take_up)
        self._serve = Chore("kubelet", "the kubelet can't be served", self._driver.tick)
        self._enforce = Chore("enforcement", "what enforces shares fails", self._enforcements.tick)
        self._publish = Chore("slices", "what is published can't be built", self._want)
        forgotten = Forgotten(users, self._checkpoint, api.gone, self._preparer.unprepare)
        self._forgotten = Chore("forgotten", "forgotten claims are not given back", forgotten.look)
        self._looking, self._looked = Worker("forgotten"), time.monotonic()
        self._refresh = Chore("refresh", "claims' specifications are old", self._preparer.refresh)
        self._chores = (
            *(*self._gpus.chores, self._restore, self._serve, self._enforce, self._publish),
            *(self._refresh, self._forgotten, self.written, self._telemetry.chore, last_good.chore),
        )

    def begin(self) -> int:
        """Look at the GPUs, publish them, and serve the kubelet."""
        os.umask(0o077)
        self._configuration.log("started", version=__version__, node=self._paths.node)
        self._publisher.start()
        self._gpus.first_look(self._configuration.config, self.pause)
        self.round()
        return 0

    def close(self) -> None:
        """Stop serving."""
        leaving = signal.SIGUSR1 in self.signals
        if leaving and not self._publisher.withdraw(LEAVE):
            logs.warning("ResourceSlices are left, until the kubelet removes them")
        self._publisher.stop()
        self._driver.stop()
        self._telemetry.stop()
        self.status.remove()
        self._access.close()

    def _held(self) -> Iterable[PreparedClaim]:
        return self._checkpoint.claims.values()

    def round(self) -> None:
        """Look at the GPUs, publish them, and report.

        Raises:
            DriverReplaced, RestartNeeded: if only another process can go on.
        """
        self._name.check(self._publisher.standing.problem)
        asked = self.reloading()
        before = self._configuration.config.dra
        self._configuration.reload(partial(self._check, before=before), asked=asked)
        news = self._gpus.tick(self._configuration.config, at_once=asked)
        if news or not self._restored:
            self._faults = self._gpus.faults()
        self._configuration.judge(self._check)
        config = self._configuration.config
        self._enforcements.dra = config.dra
        self._preparer.snapshot = Snapshot(config, judged(self._gpus.inventory, self._faults))
        self._telemetry.chore.run(self._paths.metrics)
        if not self._restored:
            self._restore.run()
        if self._restored:
            self._enforce.run()
            self._serve.run()
            if self._configuration.judged:  # or pods of the device plugin might have a GPU of them
                self._publish.run()
            # Claims are described anew where the node's own specification has changed.
            self._files.node(config)
            if self._files.seen != self._described and self._refreshing.start(self._refresh.run):
                self._described = self._files.seen
            is_due = time.monotonic() - self._looked >= LOOK
            if is_due and self._looking.start(self._forgotten.run):
                self._looked = time.monotonic()
        if any(folder.lost() for folder in self._folders):
            logs.error("the kubelet's folder was recreated, and only a new process can write there")
            self.stopping = True
        held = self._checkpoint.claims
        devices = [device for claim in held.values() for device in claim.devices]
        published = [device["name"] for part in self._slices for device in part.get("devices", ())]
        self._health.put(health(self._pool, published, devices, self._preparer.snapshot.inventory))
        state = self._state()
        self.report(state, state["problem"] or state["state"])

    def _take_up(self) -> None:
        self._preparer.restore()
        self._restored = True

    def _want(self) -> None:
        """Publish the devices; before the first look at the GPUs, what an earlier process published stays."""
        inventory, config = self._gpus.inventory, self._configuration.config
        if inventory.absent and not inventory.gpus:
            return
        problems = self._enforcements.problems([gpu.uuid for gpu in self._ours()])
        made = self._made.of(self._checkpoint.claims.values())
        # An earlier release's pool is left once no claim has a device of it, which would be free in another.
        if {device.pool for claim in self._held() for device in claim.devices} != {
            self._paths.node
        }:
            self._pool = names.pool_name(self._paths.node)
        known = (inventory, config.dra, dict(self._faults), problems, made, self._pool)
        if known != self._built_from:
            where = {"node": self._paths.node, "pool": self._pool}
            self._slices = build(inventory, config, self._faults, problems, made=made, **where)
            self._built_from = known
            self._publisher.want(self._slices)

    def _ours(self) -> list[Gpu]:
        dra = self._configuration.config.dra
        gpus = (view.gpu for view in self._gpus.inventory.gpus)
        return [gpu for gpu in gpus if owner(gpu, dra) == names.DRA]

    def _check(self, config: Config, before: Dra | None = None) -> bool:
        """Refuse a configuration that takes a GPU from claims, or from pods of the device plugin.

        Return whether all users are known.
        """
        check_published(config.dra, self._held())
        return self._handover.check(config.dra, before)

    def _took(self, call: str, seconds: float, failed: bool) -> None:
        self._observer.took(seconds, names.DRIVER, call)
        if failed:
            self._observer.count(REFUSALS, names.DRIVER, call, "failed")

    def _state(self) -> dict[str, Any]:
        inventory, held = self._gpus.inventory, self._checkpoint.claims.values()
        ours, standing = self._ours(), self._publisher.standing
        registered, absent = self._driver.registered, inventory.absent
        dra, uuids = self._configuration.config.dra, [gpu.uuid for gpu in ours]
        unenforced = self._enforcements.problems(uuids)
        known = self._preparer.snapshot.inventory
        return {
            "version": __version__,
            "release": os.environ.get("GPU_NODE_RELEASE"),
            "node": self._paths.node,
            "config_sha256": self._configuration.digest,
            "config_problem": self._configuration.problem or None,
            "driver_version": None if absent else inventory.driver_version,
            "state": "waiting_for_driver"
            if absent
            else "serving"
            if self._restored
            else "starting",
            "problem": absent
            or self._restore.error
            or self._serve.error
            or standing.problem
            or None,
            "registered": registered.is_registered,
            "registration_problem": registered.problem or None,
            "enforcement": dra.enforcement,
            "enforcement_problems": unenforced,
            "unhealthy": report.unhealthy_gpus(known, uuids, unenforced, dra.publish),
            "published": asdict(standing),
            "claims": report.describe_claims(held),
            "quarantine": data_of(inventory.quarantine),
            "gated": inventory.gated,
            "gpus": report.usage_by_gpu({error.uuid: error.index for error in ours}, held),
            "chores": errors(self._chores),
        }
