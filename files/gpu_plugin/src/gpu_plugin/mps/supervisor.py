# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps one device's control daemon up and the limits of its clients in place, in a thread of its own."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut
from ..model.mps.paths import PROGRAM, Names
from ..model.mps.settings import DRAIN, READ_WRITE, TERMINATE, Bounds, Settings
from ..tools import logs
from ..tools.chores import Backoff
from ..tools.followed import Events
from . import clients, device, folders, protocol
from . import state as states
from .control import ANSWER_SECONDS, MULTI_USER, Control
from .device import Rollback, SharedMemory
from .protocol import ControlError, Silent
from .state import FAILED, READY, STARTING, STOPPING, Report

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
SOON: Final = 2.0  # seconds until the next look at a daemon that is not as it should be
UNKNOWN: Final = "an earlier manager started it with limits that are not known"


@dataclass(frozen=True)
class Options:
    """The options of control daemons.

    Each is asked every ``interval`` seconds, and its GPU's compute mode is read every ``modes``. It has
    ``patience`` seconds for an answer, and twice as many to begin. One that was ready for ``steady`` seconds
    ends for the first time again. One that is ``silent`` for so long is replaced where nobody uses it, and
    one for ``replace_silent`` whoever does; never where that is 0.
    """

    control: str = PROGRAM
    own_shm: bool = True
    interval: float = 10.0
    modes: float = 10.0
    patience: float = ANSWER_SECONDS
    steady: float = 60.0
    silent: float = 30.0
    replace_silent: float = 0.0


class Supervisor:
    """Runs a device's daemon. One that runs is ended only if no client loses by it, or the settings demand it.

    While the file with the settings is there, with the same root, what containers have mounted stays.
    """

    def __init__(
        self,
        names: Names,
        desired: Settings | None,
        settings_path: Path,
        options: Options,
        events: Events,
    ) -> None:
        self.names, self.desired, self.is_done, self.given_up = names, desired, False, False
        self.mode_problem, self.mode_due = "", False
        self._settings_path, self._options = settings_path, options
        self._report = Report(names)
        self._rollback, self._shm = Rollback(names), SharedMemory(names)
        self._wake, self._changed = threading.Event(), threading.Event()
        self._control = Control(options.control, names, events, self._wake.set, options.patience)
        self._leaving = self._ending = False
        # Of the daemon that runs, None also where they are unknown.
        self._running: Settings | None = None
        self._bounds: Bounds | None = None
        self._prepared: device.Prepared | None = None
        self._review = False
        self._in_place = False  # the limits, as far as was read back
        self._clients: int | None = None
        self._pids: list[int] = []  # of the clients
        self._servers: tuple[int, ...] = ()
        self._faults: list[str] = []  # servers that take nobody, and whom they wait for
        self._ready_since = self._silent_since = float("inf")
        self._last_problem = ""
        self._thread = threading.Thread(target=self._run, name=names.device, daemon=True)

    # --- for the manager's thread ---

    def start(self) -> None:
        """Begin, with the daemon that an earlier manager left if there is one."""
        self._thread.start()

    def want(self, settings: Settings | None) -> None:
        """Have these settings from now on; None: the device is no longer shared."""
        self.desired, self._review = settings, True
        self._wake.set()
        self._changed.set()

    def leave(self) -> None:
        """Leave the daemon to the next manager, as it is."""
        self._leaving = True
        self._wake.set()
        self._changed.set()

    def end(self) -> None:
        """End the daemon even if it has clients, after the time that they have, and restore the compute mode."""
        if not self._ending:
            self._ending = True
            self.want(None)

    def look(self) -> None:
        """Notice the end of a daemon that nothing else notices."""
        self._control.look()

    @property
    def ready(self) -> bool:
        """Return whether shares of it may be given."""
        return self._ready_since != float("inf") and not self._last_problem

    def keep_mode(self) -> None:
        """Keep processes without MPS off a GPU. To be used while NVML is open."""
        before, gpu = self.mode_problem, self.names.device
        try:
            self._rollback.keep_exclusive()
            self.mode_problem = device.strangers(gpu, self._control.pid, self._servers)
        except (NodeError, OSError) as error:
            self.mode_problem = _text(error)
        if self.mode_problem != before:
            self._wake.set()

    # --- in a thread of its own ---

    def _run(self) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0)
        while not (self._leaving or self.is_done or self.given_up):
            try:
                with folders.locked(self.names):
                    self._serve()
            except Exception as error:  # it concerns no other device
                problem = _text(error)
                if problem != self._last_problem:
                    logs.error(f"MPS of {self.names.device} can't be managed", cause=problem)
                self._last_problem = problem
                self.is_done = self.desired is None and not self._control.pid
                self._pause(backoff.failed())

    def _serve(self) -> None:
        """Serve the device until it is given back, or left to the next manager."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0)
        self._rollback.load()
        self._adopt()
        while not self._leaving:
            try:
                if self._control.pid:
                    self._watch()
                elif self.desired:
                    self._bring_up(self.desired)
                    self._watch()  # before the next round, which would take one that has ended for none
                else:
                    self._give_back()
                    return
            except Exception as error:
                if time.monotonic() - self._ready_since > self._options.steady:
                    backoff.reset()
                self._note(_text(error))
                self._pause(backoff.failed())

    def _note(self, problem: str) -> None:
        """Report why there is no daemon, or the problem of the one that there is."""
        if self._control.pid:
            self._report.state(FAILED, self._control.pid, problem)
            return
        self._ready_since = self._silent_since = float("inf")
        self._running = None
        self._report.settings(None)
        if self.desired is None:  # what can't be given back is no restart
            self._report.state(FAILED, problem=problem)
        else:
            self._report.failed(problem)

    def _adopt(self) -> None:
        """Adopt the daemon that an earlier manager left; its clients do not notice."""
        pid, own = self._rollback.left
        if not pid:
            return
        if state := states.read(Path(self.names.status)):
            self._report.resume(state)
            self._running = states.settings_of(state["settings"])
            with contextlib.suppress(TypeError):
                self._bounds = Bounds(**state["limits"]["default"])
        if self._bounds is None:
            self._running = None
        self._in_place = self._running is not None and bool(state and state["limits"]["read_back"])
        self._control.adopt(pid, own)
        self._rollback.daemon(pid)
        self.mode_due = True  # it may have been changed meanwhile
        self._ready_since = time.monotonic()
        logs.info(
            "adopted the control daemon of an earlier manager", device=self.names.device, daemon=pid
        )

    def _bring_up(self, desired: Settings) -> None:
        """Start a daemon where no client can reach it, and let them once its limits are in place."""
        self._report.state(STARTING)
        if self._prepared is None or not self._prepared.settings.suits(desired):
            self._prepared = device.prepare(self.names, desired, self._options, self._rollback)
        prepared = self._prepared
        self._report.shares(prepared.shares, prepared.own_shm, bool(desired.multi_user))
        self._bounds = prepared.shares.default
        own = folders.fresh(self.names)
        options = [MULTI_USER] if desired.multi_user else []
        try:
            self._control.start(own, options, own_shm=prepared.own_shm)
            self._rollback.daemon(self._control.pid)
            self._control.wait(own)
            self._set_limits(self._bounds)
            folders.publish(self.names, own, everything=desired.pipe_access == READ_WRITE)
        except BaseException:
            self._control.kill()  # nobody has reached it yet
            raise
        self._running, self._review = desired, False
        self._ready_since = time.monotonic()
        self._report.settings(desired)
        self._report.state(READY, self._control.pid, pipe=str(own))

    def _set_limits(self, bounds: Bounds) -> None:
        self._in_place = False
        read_back = {}
        for setting in protocol.settings(bounds):
            self._control.ask(setting.set)
            read_back[setting.name] = protocol.check(setting, self._control.ask(setting.get))
        self._in_place = True
        self._report.limits(read_back=read_back)

    def _watch(self) -> None:
        """Look after the daemon until it is ended, or left. An error if it ended by itself."""
        while not self._leaving:
            self._last_problem = problem = self._problem()
            self._report.state(FAILED if problem else READY, self._control.pid, problem)
            waits = self._due()
            if waits and self._is_unused():
                self._drain()
                break
            interval = self._options.interval
            self._wait(min(interval, SOON) if waits or problem else interval)
            self._control.check_alive()

    def _wait(self, seconds: float) -> None:
        """Wait for news, also for the end of a client, which is noticed without asking the daemon."""
        deadline = time.monotonic() + seconds
        while not self._wake.wait(min(SOON, seconds) if self._pids else seconds):
            gone = not all(os.path.exists(f"/proc/{pid}") for pid in self._pids)
            if gone or time.monotonic() >= deadline:
                break
        self._wake.clear()

    def _problem(self) -> str:
        """Return why shares must not be given now; the daemon and its clients go on all the same."""
        try:
            self._look()
        except Silent as error:
            return self._silence(error)
        except Exception as error:  # an answer that is not understood is no reason to end anything
            self._control.check_alive()
            self._forget()
            return _text(error)
        self._silent_since = float("inf")
        if not self._running:
            return UNKNOWN
        return "; ".join(self._faults) or self.mode_problem

    def _forget(self) -> None:
        # They are read again once it answers.
        self._in_place, self._clients, self._pids, self._faults = False, None, [], []

    def _look(self) -> None:
        answer = self._control.ask(protocol.POLL)
        servers, holds = protocol.polled(answer, self._bounds)
        if self._running and self._bounds:
            if not holds:
                logs.warning(
                    "somebody changed the limits, setting them again", device=self.names.device
                )
            if not (holds and self._in_place):
                self._set_limits(self._bounds)
        clients_by_pid = {pid: self._control.clients_of(pid, self._bounds) for pid in servers}
        self._clients = sum(map(len, clients_by_pid.values()))
        self._pids = [pid for pids in clients_by_pid.values() for pid in pids]
        self._servers = servers
        self._faults = [
            protocol.faulted(pid, pids)
            for pid, pids in clients_by_pid.items()
            if self._control.has_fault(pid)
        ]
        self._report.clients(clients_by_pid)
        if not self._clients:
            self._shm.tidy(self._control.pid, servers, self._control.ask)

    def _silence(self, error: Silent) -> str:
        """Return the problem of a daemon that does not answer, or end it, which is an error.

        A process that connects and sends nothing silences it. Its clients work on, and would be lost.
        """
        self._control.check_alive()
        self._forget()
        self._silent_since = min(self._silent_since, time.monotonic())
        silent, daemon = time.monotonic() - self._silent_since, self._control.pid
        holders = clients.holders(daemon)
        options = self._options
        asked = 0 < options.replace_silent <= silent + options.patience
        nobody = not holders and not clients.servers(daemon) and silent >= options.silent
        if asked or nobody:
            self._control.kill()
            raise ControlError(error.message, cause=error.cause)
        if holders:
            return f"{error.message}: its control socket is held by {holders}"
        return str(error)

    def _due(self) -> bool:
        """Return whether the daemon is to end, or to run again with other settings."""
        desired = self.desired
        if desired is None or self._running is None or not self._running.suits(desired):
            return True
        if self._running != desired:  # in what only concerns its end
            self._running = desired
            self._report.settings(desired)
        if self._review:  # whether the device has changed, such as to less memory
            try:
                self._review = device.shares(self.names.device, desired).default != self._bounds
            except NodeError:
                self._review = False
        return self._review

    def _is_unused(self) -> bool:
        """Return whether the daemon has no clients, or its settings give them up."""
        asked = self.desired or self._running
        if self._ending or (asked and asked.on_busy == TERMINATE):
            return True
        if self._clients is None:  # without a server there is no client
            return not clients.servers(self._control.pid)
        return self._clients == 0

    def _drain(self) -> None:
        """End the daemon after the time that its clients have."""
        self._report.state(STOPPING, self._control.pid)
        asked = self.desired or self._running
        self._control.quit(asked.drain if asked else DRAIN, lambda: not self._leaving)
        if self._control.pid:
            return
        folders.clean(self.names)
        self._running = self._prepared = self._bounds = None
        self._ready_since = float("inf")
        self._report.settings(None)

    def _give_back(self) -> None:
        """Restore what was changed for MPS. At the end, what can't be restored is left to the next manager."""
        folders.clean(self.names)
        # No container gets these mounts again if the device is not shared, or below another root.
        settings = states.parsed(self._settings_path)
        if settings.root != self.names.root if settings else not self._settings_path.exists():
            folders.unmount(self.names)
        try:
            self._rollback.give_back()
        except NodeError as error:
            if not self._ending:
                raise
            self._note(_text(error))
            self.given_up = True
        else:
            self._report.remove()
            self.is_done = True

    def _pause(self, seconds: float) -> None:
        self._changed.wait(seconds)
        self._changed.clear()
        self._wake.clear()


def _text(error: Exception) -> str:
    known = isinstance(error, (NodeError, OSError))
    return cut(str(error) if known else f"{type(error).__name__}: {error}", 400)
