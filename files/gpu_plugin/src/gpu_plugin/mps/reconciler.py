# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps the MPS daemons of a node in step with what the plugin offers, and who runs their managers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from .._shared._core.errors import NodeError
from .._shared._host.api import Host
from ..tools import bounded, files, logs
from ..tools.state import started
from . import control, folders
from .paths import ROOT, settings_file
from .settings import REFUSE, Offer, Settings
from .state import ManagerFiles
from .verdict import Act, Verdict, judge

BLIP: Final = 1.0  # seconds for which a daemon that was soon back is reported as away
AGAIN: Final = 3.0  # seconds until what had no effect is asked for again
BOOTED: Final = Path("/run/systemd/system")
SYSTEMD, OWN = "systemd", "own"
TIMEOUT: Final = 5.0  # for each of three verbs: the watchdog waits for 30 seconds
END_SECONDS: Final = 60.0
PAUSE: Final = 0.05
KEPT_FROM_MANAGERS: Final = ("NOTIFY_SOCKET", "WATCHDOG_", "MAINPID")

Managers = Mapping[str, int]


class Units(Protocol):
    """Managers by their device, with the processes that they are now, 0 where there is none.

    Only close() waits for what it asks for.
    """

    def ask(self, act: Act, managers: Managers) -> None:
        """Have these managers run, end and run again, or end."""

    def close(self, managers: Managers) -> None:
        """The daemon ends, and these are all managers."""


def choose(kind: str, folder: Path) -> Units:
    """Return who runs managers: ``kind`` says it, or is empty for systemd where it is the init."""
    if (kind or (SYSTEMD if BOOTED.is_dir() else OWN)) == SYSTEMD:
        return Systemd()
    return Children(folder)


class Systemd:
    """The units gpu-mps@UUID.service. They outlive this process."""

    def ask(self, act: Act, managers: Managers) -> None:
        names = [f"gpu-mps@{device}.service" for device in managers]
        command = ["systemctl", "--no-block", "--quiet", act.value, *names]
        done = Host().run(command, check=False, timeout=TIMEOUT)
        if done.rc:
            problem = done.err.strip() or f"status {done.rc}"
            logs.error(f"systemd does not {act.value} MPS daemons", units=names, cause=problem)

    def close(self, managers: Managers) -> None:
        pass


class Children:
    """Managers as children of this process, for a container without systemd. They end with it.

    Those of a daemon that was killed may run on; they are taken over.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def ask(self, act: Act, managers: Managers) -> None:
        """One that is to end and run again is started the next time, when its clients have gone."""
        for device, pid in managers.items():
            child = self._children.get(device)
            if act is not Act.START and _is_manager(pid, device):
                _signal(pid, signal.SIGTERM)
            elif act is Act.START and (child is None or child.poll() is not None):
                self._start(device)

    def close(self, managers: Managers) -> None:
        """End them, have compute modes given back, and wait for it."""
        taken = [pid for device, pid in managers.items() if _is_manager(pid, device)]
        children = [one.pid for one in self._children.values() if one.poll() is None]
        living = {pid: started(pid) for pid in {*taken, *children}}
        for pid in living:
            _signal(pid, signal.SIGINT)
        deadline = time.monotonic() + END_SECONDS
        while any(started(pid) == began for pid, began in living.items() if began):
            if time.monotonic() > deadline:
                logs.warning("managers of MPS daemons still wait for clients", pids=list(living))
                return
            time.sleep(PAUSE)

    def _start(self, device: str) -> None:
        command = [sys.executable, "-m", "gpu_plugin", "mps", "run", "--device", device]
        command += ["--settings", settings_file(device, str(self._folder))]
        env = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_MANAGERS)}
        try:
            self._children[device] = subprocess.Popen(command, env=env, start_new_session=True)
        except OSError as error:
            logs.error("can't start the manager of an MPS daemon", device=device, cause=error)


def _is_manager(pid: int, device: str) -> bool:
    """Tell whether a process is a device's manager: what a file says may be wrong."""
    command = bounded.peek(Path(f"/proc/{pid}/cmdline")).split("\0")
    return "mps" in command and device in command


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Reconciler:
    """``folder`` has the files with the settings of managers, ``units`` runs them.

    Nothing is started or ended before want() has been called: what a plugin that begins has not
    looked at yet goes on as it is.
    """

    def __init__(
        self, folder: Path, units: Units, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = ManagerFiles(folder)
        self._units = units
        self._clock = clock
        self._offers: dict[str, Offer] = {}
        self._root = ROOT
        self._begun = False
        self._verdicts: dict[str, Verdict] = {}
        self._leaving: set[str] = set()
        self._asked: dict[str, tuple[Act, float]] = {}
        self._restarted: dict[
            str, int
        ] = {}  # the managers that are to end, and run again as others
        self._served: dict[str, tuple[int, float]] = {}  # the control daemons seen well, and since

    def want(self, offers: Mapping[str, Offer], root: str) -> None:
        """Share these devices and no others."""
        self._offers, self._root, self._begun = dict(offers), root, True
        self._leaving = (self._files.devices(root) | self._leaving) - self._offers.keys()
        self.tick()

    def tick(self) -> bool:
        """Look at all managers and do what is due. Returns whether anything is to be advertised again."""
        before, known = self.problems(), sorted({*self._offers, *self._leaving})
        # What managers tell below a root that others may write to may be a lie: it is not looked at.
        if known and (why := folders.refusal(self._root)):
            self._verdicts = dict.fromkeys(known, Verdict(why))
        else:
            self._verdicts = {device: self._judge(device) for device in known}
        for act in (Act.STOP, Act.RESTART, Act.START):
            due = self._managers(one for one, found in self._verdicts.items() if found.act is act)
            if ready := {one: pid for one, pid in due.items() if self._prepare(one, act)}:
                logs.info(f"MPS daemons to {act.value}", devices=list(ready))
                self._units.ask(act, ready)
                if act is Act.RESTART:
                    self._restarted.update(ready)
        return self.problems() != before

    def problems(self) -> dict[str, str]:
        """Return by device why it must not be given to anybody."""
        return {device: one.problem for device, one in self._verdicts.items() if one.problem}

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return for the status how it is with each device."""
        return {
            device: {"problem": one.problem or None, "waits_for_clients": one.busy}
            for device, one in self._verdicts.items()
            if device in self._offers or one.problem
        }

    def own_shm(self, device: str) -> bool:
        """Tell whether a device's daemon has a shm of its own."""
        state = self._files.look(device, self._root).state
        return state is None or bool(state["own_shm"])

    def refuses(self, offers: Mapping[str, Offer]) -> str:
        """Return why other offers can't be had, empty where they can."""
        if any(one.settings.multi_user for one in offers.values()):
            try:
                control.require_multi_user()
            except NodeError as error:
                return str(error)
        for root in {one.names.root for one in offers.values()}:
            if why := folders.refusal(root):
                return why
        return self._clients_against(offers)

    def refuses_to_begin(self, offers: Mapping[str, Offer]) -> str:
        """Return which clients stand against what is asked for first: nothing is to go on with."""
        return "" if self._begun else self._clients_against(offers)

    def _clients_against(self, offers: Mapping[str, Offer]) -> str:
        """Return which clients stand against other offers, where these or those before say so."""
        for device in sorted({*offers, *self._offers, *self._files.devices(self._root)}):
            now = offers.get(device)
            observed = self._files.look(device, now.names.root if now else self._root)
            one = now or self._offers.get(device)  # a plugin that begins knows the settings only
            settings = one.settings if one else observed.settings
            verdict = judge(now, observed)
            if settings and settings.on_busy == REFUSE and verdict.busy:
                return f"{device}: {verdict.problem}, and onBusy is {REFUSE}"
        return ""

    def close(self) -> None:
        """The daemon ends. One that did not begin leaves all as it was."""
        self._units.close(self._managers(self._files.devices(self._root) if self._begun else ()))

    def _managers(self, devices: Iterable[str]) -> dict[str, int]:
        """Return the managers' processes, 0 where none runs."""
        return {one: self._files.look(one, self._root).pid for one in devices}

    def _judge(self, device: str) -> Verdict:
        observed = self._files.look(device, self._root)
        verdict = judge(self._offers.get(device), observed)
        if verdict == Verdict() and observed.pid == self._restarted.get(device):
            verdict = Verdict(
                "its MPS daemon is about to end", Act.RESTART
            )  # not yet, but was told
        if verdict.problem or device not in self._offers or observed.state is None:
            self._served.pop(device, None)
            return verdict
        daemon, now = int(observed.state["daemon"]), self._clock()
        known, since = self._served.get(device, (daemon, now - BLIP))
        if known != daemon:  # its clients are lost, also if nobody saw it away
            since = now
        self._served[device] = (daemon, since)
        return Verdict("its MPS daemon ended and runs again") if now - since < BLIP else verdict

    def _prepare(self, device: str, act: Act) -> bool:
        """Write or remove a manager's settings. Returns whether it is time to ask for the act."""
        last, since = self._asked.get(device, (Act.NOTHING, 0.0))
        if last is act and self._clock() - since < AGAIN:
            return False
        path = self._files.file(device)
        try:
            if act is Act.STOP:
                path.unlink(missing_ok=True)
            elif device in self._offers:
                files.replace(path, self._offers[device].settings.to_json())
            elif not ((known := self._files.look(device, self._root).settings) and known.replicas):
                # All that cleans up has to know is where.
                files.replace(path, Settings(1, root=self._root).to_json())
        except OSError as error:
            logs.error("the settings of an MPS daemon can't be written", path=path, cause=error)
            return False
        self._asked[device] = (act, self._clock())
        return True
