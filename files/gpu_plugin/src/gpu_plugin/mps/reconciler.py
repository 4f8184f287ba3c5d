# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps the settings that the manager of MPS daemons follows in step with the plugin's offers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .._shared._base.dra.names import DEVICE_PLUGIN, DRA
from .._shared._base.errors import NodeError
from ..model.mps.paths import ROOT
from ..model.mps.settings import REFUSE, Offer, Settings
from ..tools import files, logs
from . import control, folders, state
from .state import ManagerFiles, MpsState
from .units import Units
from .verdict import KILLED, Verdict, judge

BLIP: Final = 1.0  # seconds for which a daemon that was soon back is reported as away
AGAIN: Final = 3.0  # seconds until what had no effect is asked for again
ADOPTION: Final = 10.0  # seconds that a manager may take to come back to what runs on without it
OWNERS: Final = {DEVICE_PLUGIN: "the device plugin", DRA: "the DRA driver"}


class Reconciler:
    """``folder`` has the files with the settings of devices, ``units`` runs the manager that follows them.

    Nothing is written or removed before want() has been called: what a plugin that begins has not
    looked at yet goes on as it is. ``owner`` is who this is: what others have shared is left alone.
    """

    def __init__(
        self,
        folder: Path,
        units: Units,
        clock: Callable[[], float] = time.monotonic,
        owner: str = DEVICE_PLUGIN,
    ) -> None:
        self._folder, self._owner = folder, owner
        self._files = ManagerFiles(folder)
        self._units = units
        self._clock = clock
        self._offers: dict[str, Offer] = {}
        self._root = ROOT
        self._begun = False
        self._verdicts: dict[str, Verdict] = {}
        self._judged: dict[str, tuple[Offer | None, MpsState, Verdict]] = {}
        self._leaving: set[str] = set()
        self._started = float("-inf")
        self._killed: dict[str, float] = {}  # since when a device has no manager
        self._written: dict[str, float] = {}
        self._complaints: dict[str, str] = {}
        self._served: dict[str, tuple[int, float]] = {}  # the control daemons seen well, and since

    def want(self, offers: Mapping[str, Offer], root: str, held: Collection[str] = ()) -> None:
        """Share these devices and no others; what is ``held`` stays as it is, shared or not."""
        staying = {device: offer for device, offer in self._offers.items() if device in held}
        asked = {device: self._decided(offer) for device, offer in offers.items()}
        self._offers, self._root, self._begun = {**asked, **staying}, root, True
        self._leaving = (self._files.devices(root) | self._leaving) - {*self._offers, *held}
        self.tick()

    def _decided(self, offer: Offer) -> Offer:
        """Return an offer with multi_user decided: as in the daemon that runs, which is not ended for that alone."""
        desired = offer.settings
        if desired.multi_user is not None:
            return offer
        observed = self._files.look(offer.names.device, offer.names.root)
        running = observed.running.multi_user if observed.serving and observed.running else None
        is_suitable = running is not None and observed.suits(replace(desired, multi_user=running))
        multi_user = running if is_suitable else control.has_multi_user()
        return replace(offer, settings=replace(desired, multi_user=multi_user))

    def _is_foreign(self, device: str, observed: MpsState) -> bool:
        """Return whether a device is another's, or was by the daemon that still runs."""
        before = observed.running.owner if observed.running and device not in self._offers else ""
        known = observed.settings.owner if observed.settings else self._files.owner(device)
        return (known or before) not in ("", self._owner)

    def tick(self) -> bool:
        """Look at all devices and do what is due. Return whether anything is to be advertised again."""
        before, known = self.problems(), sorted({*self._offers, *self._leaving})
        # A manager's state below a root that others may write to may be a lie: it is not looked at.
        if known and (why := folders.refusal(self._root)):
            self._verdicts = dict.fromkeys(known, Verdict(why))
            return self.problems() != before
        states = self._files.looks(known, self._root)
        foreign = {device for device in states if self._is_foreign(device, states[device])}
        self._leaving -= foreign
        observed = {device: states[device] for device in states if device not in foreign}
        self._manage(observed)
        self._verdicts = {device: self._judge(device, observed[device]) for device in observed}
        for device in foreign & self._offers.keys():
            owner = self._files.owner(device)
            self._verdicts[device] = Verdict(f"{OWNERS.get(owner, owner)} has it shared by MPS")
        for device in observed:
            self._settle(device, observed[device].settings)
        return self.problems() != before

    def _manage(self, observed: Mapping[str, MpsState]) -> None:
        """Run a manager if there is something for it to do."""
        moment = self._clock()
        if self._files.manager():
            self._started = float("-inf")
            return
        busy = any(device in self._offers or observed[device].state for device in observed)
        if busy and moment - self._started >= AGAIN:
            self._started = moment
            self._units.run()

    def problems(self) -> dict[str, str]:
        """Return by device why it must not be given to anybody."""
        return {
            device: verdict.problem for device, verdict in self._verdicts.items() if verdict.problem
        }

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return the verdict about each device as the status has it."""
        return {
            device: {"problem": verdict.problem or None, "waits_for_clients": verdict.busy}
            for device, verdict in self._verdicts.items()
            if device in self._offers or verdict.problem
        }

    def own_shm(self, device: str) -> bool:
        """Return whether a device's daemon has a /dev/shm of its own."""
        state = self._files.look(device, self._root).state
        return state is None or bool(state["own_shm"])

    def refuses(self, offers: Mapping[str, Offer]) -> str:
        """Return why the offers can't take the place of the present ones, empty if they can."""
        offers = {device: self._decided(offer) for device, offer in offers.items()}
        if any(offer.settings.multi_user for offer in offers.values()):
            try:
                control.require_multi_user()
            except NodeError as error:
                return str(error)
        for root in {offer.names.root for offer in offers.values()}:
            if why := folders.refusal(root):
                return why
        # Clients stand against it, if these settings or those before say so.
        for device in sorted({*offers, *self._offers, *self._files.devices(self._root)}):
            current = offers.get(device)
            observed = self._files.look(device, current.names.root if current else self._root)
            offer = current or self._offers.get(device)
            settings = offer.settings if offer else observed.running or observed.settings
            verdict = judge(current, observed)
            if settings and settings.on_busy == REFUSE and verdict.busy:
                return f"{device}: {verdict.problem}, and onBusy is {REFUSE}"
        return ""

    def close(self) -> None:
        """End the manager, unless another owner needs it, or want() was never called."""
        if self._files.owners() <= {"", self._owner}:
            self._units.close(int(self._files.manager().get("pid", 0)) if self._begun else 0)

    def _judge(self, device: str, observed: MpsState) -> Verdict:
        seen, offer = self._judged.get(device), self._offers.get(device)
        if seen is None or seen[:2] != (offer, observed):  # limits are long to compare
            self._judged[device] = seen = (offer, observed, judge(offer, observed))
        verdict, moment = seen[2], self._clock()
        if verdict.problem != KILLED:
            self._killed.pop(device, None)
        elif observed.serving and moment - self._killed.setdefault(device, moment) < ADOPTION:
            return self._verdicts.get(device, verdict)  # its clients know nothing of that
        if verdict.problem or device not in self._offers or observed.state is None:
            self._served.pop(device, None)
            return verdict
        daemon = int(observed.state["daemon"])
        known, since = self._served.get(device, (daemon, moment - BLIP))
        if known != daemon:  # its clients are lost, also if nobody saw it away
            since = moment
        self._served[device] = (daemon, since)
        if moment - since < BLIP:
            return Verdict("its MPS control daemon ended and runs again")
        return verdict

    def _settle(self, device: str, known: Settings | None) -> None:
        """Write or remove a device's settings if they are not as they should be."""
        offer, path, moment = self._offers.get(device), self._files.file(device), self._clock()
        if offer is None:
            wrong = path.exists()
        else:  # one that has other limits all the same is asked to look at the device again
            again = moment - self._written.get(device, float("-inf")) >= AGAIN
            wrong = known != offer.settings or (self._verdicts[device].other and again)
        if not wrong:
            return
        try:
            with folders.the_settings(self._folder):
                if state.owner_of(path) not in ("", self._owner):
                    return  # it has become another's since it was looked at
                if offer is None:
                    path.unlink(missing_ok=True)
                else:
                    files.replace(path, offer.settings.to_json())
        except (NodeError, OSError) as error:
            cause = getattr(error, "strerror", None) or str(error)
            if self._complaints.get(device) != cause:
                problem = "the settings of an MPS control daemon can't be written"
                logs.error(problem, path=path, cause=cause)
            self._complaints[device] = cause
        else:
            self._written[device] = moment
            self._complaints.pop(device, None)
