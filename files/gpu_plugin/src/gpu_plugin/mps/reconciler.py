# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps what the manager of MPS daemons is to do in step with what the plugin offers."""

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
        """Return an offer with whether users share a server: as in what runs, which is not ended for that alone."""
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
        """Look at all devices and do what is due. Returns whether anything is to be advertised again."""
        before, known = self.problems(), sorted({*self._offers, *self._leaving})
        # What a manager tells below a root that others may write to may be a lie: it is not looked at.
        if known and (why := folders.refusal(self._root)):
            self._verdicts = dict.fromkeys(known, Verdict(why))
            return self.problems() != before
        states = self._files.looks(known, self._root)
        foreign = {
            device
            for device, observed_device in states.items()
            if self._is_foreign(device, observed_device)
        }
        self._leaving -= foreign
        observed = {
            device: observed_device
            for device, observed_device in states.items()
            if device not in foreign
        }
        self._manage(observed)
        self._verdicts = {
            **{
                device: self._judge(device, observed_device)
                for device, observed_device in observed.items()
            },
            **{device: self._taken(device) for device in foreign & self._offers.keys()},
        }
        for device, observed_device in observed.items():
            self._settle(device, observed_device.settings)
        return self.problems() != before

    def _taken(self, device: str) -> Verdict:
        owner = self._files.owner(device)
        return Verdict(f"{OWNERS.get(owner, owner)} has it shared by MPS")

    def _manage(self, observed: Mapping[str, MpsState]) -> None:
        """Have a manager where there is something for it to do."""
        moment = self._clock()
        if self._files.manager():
            self._started = float("-inf")
            return
        busy = any(
            device in self._offers or observed_device.state
            for device, observed_device in observed.items()
        )
        if busy and moment - self._started >= AGAIN:
            self._started = moment
            self._units.run()

    def problems(self) -> dict[str, str]:
        """Return by device why it must not be given to anybody."""
        return {
            device: verdict.problem for device, verdict in self._verdicts.items() if verdict.problem
        }

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return for the status how it is with each device."""
        return {
            device: {"problem": verdict.problem or None, "waits_for_clients": verdict.busy}
            for device, verdict in self._verdicts.items()
            if device in self._offers or verdict.problem
        }

    def own_shm(self, device: str) -> bool:
        """Return whether a device's daemon has a shm of its own."""
        state = self._files.look(device, self._root).state
        return state is None or bool(state["own_shm"])

    def refuses(self, offers: Mapping[str, Offer]) -> str:
        """Return why other offers can't be had, empty where they can."""
        offers = {device: self._decided(offer) for device, offer in offers.items()}
        if any(offer.settings.multi_user for offer in offers.values()):
            try:
                control.require_multi_user()
            except NodeError as error:
                return str(error)
        for root in {offer.names.root for offer in offers.values()}:
            if why := folders.refusal(root):
                return why
        return self._clients_against(offers)

    def _clients_against(self, offers: Mapping[str, Offer]) -> str:
        """Return which clients stand against other offers, where these or those before say so."""
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
        """The plugin ends. One that did not begin leaves all as it was, and a manager that others need."""
        if self._files.owners() <= {"", self._owner}:
            self._units.close(int(self._files.manager().get("pid", 0)) if self._begun else 0)

    def _judge(self, device: str, observed: MpsState) -> Verdict:
        verdict = self._verdict(device, observed)
        moment = self._clock()
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
        return (
            Verdict("its MPS control daemon ended and runs again")
            if moment - since < BLIP
            else verdict
        )

    def _verdict(self, device: str, observed: MpsState) -> Verdict:
        """Judge a device, if anything has changed: its limits are long to compare."""
        seen, offer = self._judged.get(device), self._offers.get(device)
        if seen is None or seen[:2] != (offer, observed):
            self._judged[device] = seen = (offer, observed, judge(offer, observed))
        return seen[2]

    def _settle(self, device: str, known: Settings | None) -> None:
        """Write or remove a device's settings, where they are others than they should be."""
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
        except OSError as error:
            self._complain(device, path, error.strerror or str(error))
        except NodeError as error:
            self._complain(device, path, str(error))
        else:
            self._written[device] = moment
            self._complaints.pop(device, None)

    def _complain(self, device: str, path: Path, cause: str) -> None:
        if self._complaints.get(device) != cause:
            logs.error(
                "the settings of an MPS control daemon can't be written", path=path, cause=cause
            )
        self._complaints[device] = cause
