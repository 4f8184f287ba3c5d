# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares limited by MPS: a daemon for each GPU that has any, as long as it has one."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from ..._shared._base.dra.names import DRA, MPS
from ..._shared._base.errors import NodeError
from ..._shared._machine.nvml.real import open_nvml
from ...model.mps.paths import PROGRAM, Names
from ...model.mps.settings import Offer, Settings, Shares
from ...model.quantity import MIB
from ...mps import control, device, folders
from ...mps.reconciler import Reconciler
from ...mps.state import ManagerFiles
from ...mps.units import Units
from ...tools import logs
from ...tools.chores import Worker
from ..values import Edits, Enforcement, Share
from .mps_share import edits, only, problem_of, settings
from .queries import Queries

PATIENCE: Final = 20.0  # seconds that a daemon may take; the kubelet's call ends after 45
END_SECONDS: Final = 10.0
PAUSE: Final = 0.05
FRESH: Final = 300.0  # seconds until a GPU is looked at again
# Seconds after which a daemon that is not ready is a reason to give no shares.
LASTING: Final = 30.0


class Mps(Enforcement):
    """``folder`` has the settings that the manager follows, ``root`` the daemons' files below it.

    The kubelet's calls and tick() come in threads of their own.
    """

    name = MPS

    def __init__(
        self,
        folder: Path,
        units: Units,
        root: str,
        split_count: int,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reconciler = Reconciler(folder, units, clock, DRA)
        self._files = ManagerFiles(folder)
        self._root, self._split_count = root, split_count
        self._patience, self._clock = patience, clock
        self._lock = threading.Lock()
        self._claims: dict[str, str] = {}  # the GPU of each that holds a share
        self._offers: dict[str, Offer] = {}
        self._complaints: dict[str, str] = {}
        self._since: dict[str, float] = {}  # when a daemon that has shares was seen not to be ready
        self._fit = Queries("mps-gpus", self._unfit, FRESH, clock)
        self._worker = Worker("mps-offers")

    def problem(self, gpu_uuid: str) -> str:
        """Return why shares of a GPU can't be enforced: not while a daemon is about to be ready."""
        if why := self._node_problem() or self._fit.last_answer(gpu_uuid, ""):
            return why
        with self._lock:
            since = self._since.get(gpu_uuid)
            problem_text = self._reconciler.problems().get(gpu_uuid, "")
        return problem_text if since is not None and self._clock() - since >= LASTING else ""

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Have the GPU's daemon run, and return what makes containers its clients with these limits."""
        share = only(shares)
        if why := self._node_problem() or self._fit.answer(share.gpu_uuid):
            raise NodeError(f"MPS can't share {share.gpu_uuid}", cause=why)
        offer = self._offer(share.gpu_uuid)
        edits(share, offer)  # what can't be had starts no daemon
        with self._lock:
            known = share.claim in self._claims
            self._claims[share.claim] = share.gpu_uuid
            self._offers[share.gpu_uuid] = offer
            self._want()
        if why := self._wait(share.gpu_uuid):
            if not known:
                self.unprepare(shares)
            raise NodeError(
                f"the MPS control daemon of {share.gpu_uuid} is not ready",
                cause=why,
                hint="the kubelet tries again; gpu-plugin mps status and gpu-mps.service's journal"
                " tell more",
            )
        with self._lock:  # a daemon reports its own /dev/shm once it is ready
            own = self._reconciler.own_shm(offer.names.device)
        return edits(share, replace(offer, own_shm=own))

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Release shares. The last one of a GPU ends its daemon, and its compute mode is put back.

        That is waited for, as whoever gets the GPU next may have several processes.
        """
        with self._lock:
            held = {self._claims.pop(share.claim, "") for share in shares} - {""}
            if held:
                self._want()
        for uuid in sorted(held):
            self._wait_for_end(uuid)

    def _wait_for_end(self, uuid: str) -> None:
        deadline = self._clock() + END_SECONDS
        while self._clock() < deadline:
            with self._lock:
                is_held = uuid in self._claims.values() or self._files.owner(uuid) not in ("", DRA)
                if is_held or not self._files.look(uuid, self._root).state:
                    return
                self._look()
            time.sleep(PAUSE)
        logs.warning("a GPU's MPS control daemon has not ended yet", gpu=uuid)

    def restore(self, live: Sequence[Share]) -> None:
        """Restore the daemons of these shares' GPUs; our daemons of other GPUs end.

        Nobody waits for the driver here: a GPU whose daemon does not report its memory is looked at by tick().
        """
        with self._lock:
            self._claims = {share.claim: share.gpu_uuid for share in live}
            for uuid in self._claims.values():
                state, own = self._files.look(uuid, self._root).state, self._own(uuid)
                asked = state["limits"]["asked"] if state else {}
                if own and asked:
                    self._offers[uuid] = self._offer_of(own, uuid, asked["memory_mib"])
            self._want()

    def tick(self) -> None:
        """Look after the daemons. Nobody waits for the driver here."""
        with self._lock:
            self._look()
            missing = set(self._claims.values()) - self._offers.keys()
        if missing:  # they could not be looked at as this process began
            self._worker.start(lambda: self._take_up(sorted(missing)))

    def _take_up(self, missing: Sequence[str]) -> None:
        for uuid in missing:
            try:
                offer = self._offer(uuid)
            except NodeError as error:
                if self._complaints.get(uuid) != str(error):
                    logs.warning("shares of a GPU can't be taken up", gpu=uuid, cause=error)
                self._complaints[uuid] = str(error)
                continue
            with self._lock:
                self._offers[uuid] = offer
                self._want()

    def _node_problem(self) -> str:
        if shutil.which(PROGRAM) is None:
            return f"{PROGRAM} is not installed, which comes with the driver"
        return folders.refusal(self._root)

    def _want(self) -> None:
        """Have a daemon for each GPU that has shares, and no other of ours."""
        held = set(self._claims.values())
        self._offers = {uuid: offer for uuid, offer in self._offers.items() if uuid in held}
        # What keeps a daemon of ours as it is, while its GPU could not be looked at.
        own_offers = {
            uuid: self._offer_of(own, uuid, 1)
            for uuid in held - self._offers.keys()
            if (own := self._own(uuid))
        }
        self._reconciler.want({**own_offers, **self._offers}, self._root)
        self._note()

    def _look(self) -> None:
        self._reconciler.tick()
        self._note()

    def _note(self) -> None:
        """Note since when daemons are not ready."""
        moment, bad = self._clock(), self._reconciler.problems().keys() & self._offers.keys()
        self._since = {uuid: self._since.get(uuid, moment) for uuid in bad}

    def _wait(self, uuid: str) -> str:
        """Wait until a GPU's daemon is ready. Return why it is not in time, at best the last error that it reported."""
        deadline, reason = self._clock() + self._patience, ""
        while True:
            with self._lock:
                self._look()
                why = self._reconciler.problems().get(uuid, "")
            reason = why if ": " in why or not reason else reason
            if not why or self._clock() >= deadline:
                return why and reason
            time.sleep(PAUSE)

    def _offer(self, uuid: str) -> Offer:
        """Return a GPU as it is advertised, looked at once as long as it has shares."""
        with self._lock:
            known = self._offers.get(uuid)
        if known:
            return known
        desired = self._own(uuid) or settings(self._root, multi_user=control.has_multi_user())
        return Offer(Names(uuid, self._root), desired, device.shares(uuid, desired))

    def _own(self, uuid: str) -> Settings | None:
        """Return the settings of a GPU's daemon, if it is ours."""
        own = self._files.look(uuid, self._root).settings
        return own if own and (own.owner, own.root) == (DRA, self._root) else None

    def _offer_of(self, own: Settings, uuid: str, mib: int) -> Offer:
        return Offer(Names(uuid, self._root), own, Shares(1, Fraction(mib * MIB), Fraction(100)))

    def _unfit(self, uuid: str) -> str:
        """Return why a GPU can't be shared by MPS at all, empty if it can or can't be read now."""
        try:
            with open_nvml() as nvml:
                capabilities = {gpu.uuid: gpu.compute_capability for gpu in nvml.gpus()[0]}
        except NodeError:
            return ""
        return problem_of(self._split_count, capabilities[uuid]) if uuid in capabilities else ""
