# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps a device's control daemon up and the limits of its clients in place, and remembers what to put back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .._shared._core.errors import NodeError
from .._shared._nvml import readings
from .._shared._nvml.real import open_nvml
from ..tools import bounded, logs
from ..tools.chores import Backoff
from ..tools.logs import notify
from ..tools.state import VERSION, StateFile, StateUnusable, read, started
from . import clients, folders, protocol
from .control import ANSWER_SECONDS, START_SECONDS, Control
from .paths import Names
from .protocol import ControlError, Silent
from .settings import READ_WRITE, Bounds, Settings
from .state import FAILED, READY, STARTING, Report

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
MODE_ROUNDS: Final = 5  # each look at the compute mode opens the driver
END_SECONDS: Final = 5.0


class Rollback:
    """The compute mode as it was, and the control daemon that was started."""

    def __init__(self, names: Names) -> None:
        self._file = StateFile(Path(f"{names.folder}.state"), mode=0o600)
        self._device, self._log = names.device, names.log
        self._data: dict[str, Any] = {}
        try:
            found = read(self._file.path, (VERSION,)) or {}
            self._data = {key: found[key] for key in ("daemon", "compute_mode") if key in found}
        except StateUnusable as error:
            logs.warning("what the last run left behind can't be read", cause=error)

    def end_leftover(self) -> None:
        """End the control daemon of a manager that crashed, and its servers."""
        pid, began = self._data.pop("daemon", (0, ""))
        if not pid or started(pid) != began:
            return
        environment = bounded.peek(Path(f"/proc/{pid}/environ")).split("\0")
        if f"CUDA_MPS_LOG_DIRECTORY={self._log}" not in environment:
            logs.warning("a process that is no control daemon of ours is left alone", pid=pid)
            return
        logs.warning("ending the control daemon of a manager that crashed", daemon=pid)
        deadline = time.monotonic() + END_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        while started(pid) == began:
            if time.monotonic() > deadline:
                raise NodeError(f"process {pid} of an earlier control daemon does not end")
            time.sleep(0.02)

    def daemon(self, pid: int) -> None:
        """Remember a control daemon, with what tells it from a later process of its number."""
        self._data["daemon"] = (pid, started(pid))
        try:
            self._save()
        except NodeError as error:  # a full disk is no reason to end a daemon that has clients
            logs.warning("a crash of this manager would leave its daemon behind", cause=error)

    def make_exclusive(self) -> bool:
        """Let only one process, the MPS server, onto the GPU; return whether others were let there."""
        mode = readings.compute_mode(self._device)
        if "compute_mode" not in self._data:
            self._data["compute_mode"] = mode
            self._save()  # before the change, so that no crash in between loses it
        if mode != readings.EXCLUSIVE_PROCESS:
            readings.set_compute_mode(self._device, readings.EXCLUSIVE_PROCESS)
        return bool(mode != readings.EXCLUSIVE_PROCESS)

    def give_back(self) -> None:
        """Put the compute mode back as it was, and forget."""
        mode = self._data.pop("compute_mode", None)
        if mode is not None:
            readings.set_compute_mode(self._device, mode)
        self._file.remove()

    def _save(self) -> None:
        with folders.failing(f"can't write {self._file.path}"):
            self._file.write(dict(self._data))


@dataclass(frozen=True)
class Options:
    """What is asked of a manager. While ``kept`` is there, the file of the settings, an end is a pause.

    It asks its daemon every ``interval`` seconds. One that was ready for ``steady`` seconds ends for the
    first time again, and one that is silent for ``replace_silent`` is replaced; never where it is 0.
    """

    device: str
    settings: Settings
    kept: Path | None
    control: str
    own_shm: bool
    interval: float
    steady: float
    replace_silent: float = 0.0


class Supervisor:
    """Ends a daemon that lives only where nobody loses anything by it, or the options say so."""

    def __init__(
        self,
        names: Names,
        control: Control,
        bounds: Bounds,
        report: Report,
        rollback: Rollback,
        options: Options,
    ) -> None:
        self._names, self._control = names, control
        self._bounds, self._report = bounds, report
        self._rollback, self._options = rollback, options
        self._ready_since = self._silent_since = float("inf")
        self._in_place = False  # the limits, as far as was read back
        self._rounds = 0

    def run(self, stop: threading.Event, wake: threading.Event) -> None:
        """Return when ``stop`` is set; ``wake`` says that there is something to look at."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0)
        while not stop.is_set():
            notify("WATCHDOG=1")  # whether the daemon answers is the state
            try:
                self._bring_up()
                self._watch(stop, wake)
            except NodeError as error:
                self._control.kill()
                if time.monotonic() - self._ready_since > self._options.steady:
                    backoff.reset()
                self._ready_since = self._silent_since = float("inf")
                self._report.failed(str(error))
                stop.wait(backoff.failed())

    def _bring_up(self) -> None:
        """Start a daemon where no client can reach it, and let them once its limits are in place."""
        self._report.state(STARTING)
        own = folders.fresh(self._names)
        self._control.start(own)
        self._rollback.daemon(self._control.pid)
        self._control.ask(protocol.SERVERS, START_SECONDS)
        self._set_limits()
        everything = self._options.settings.pipe_access == READ_WRITE
        folders.publish(self._names, own, everything=everything)
        self._ready_since = time.monotonic()
        self._report.state(READY, self._control.pid, pipe=str(own))

    def _set_limits(self) -> None:
        self._in_place = False
        read_back = {}
        for setting in protocol.settings(self._bounds):
            self._control.ask(setting.set)
            read_back[setting.name] = protocol.check(setting, self._control.ask(setting.get))
        self._in_place = True
        self._report.limits(read_back=read_back)

    def _watch(self, stop: threading.Event, wake: threading.Event) -> None:
        """Return when ``stop`` is set. ControlError: the daemon has to be started again."""
        before = ""
        while True:
            notify("WATCHDOG=1")
            problem = self._problem()
            if problem != before:
                state = FAILED if problem else READY
                self._report.state(state, self._control.pid, problem)
                before = problem
            wake.wait(self._options.interval)
            wake.clear()
            if stop.is_set():
                return
            self._check_alive()

    def _check_alive(self) -> None:
        if not self._control.pid:
            raise ControlError("the control daemon ended", cause=self._control.ending())

    def _problem(self) -> str:
        """Return why nobody may get a share now; the daemon and its clients go on all the same."""
        try:
            self._look()
        except NodeError as error:
            self._check_alive()
            self._in_place = False  # as far as is known: they are read again once it answers
            return self._silence(error) if isinstance(error, Silent) else str(error)
        self._silent_since = float("inf")
        return ""

    def _look(self) -> None:
        answer = self._control.ask(protocol.POLL)
        servers, kept = protocol.polled(answer, self._bounds)
        if not kept:
            logs.warning("somebody changed the limits, setting them again")
        if not (kept and self._in_place):
            self._set_limits()
        self._rounds += 1
        if self._options.device.startswith("GPU-") and not self._rounds % MODE_ROUNDS:
            with open_nvml():  # a MIG device has no compute mode
                if self._rollback.make_exclusive():
                    problem = "somebody changed the compute mode, setting EXCLUSIVE_PROCESS again"
                    logs.warning(problem, gpu=self._options.device)
        answers = {pid: self._control.ask(f"get_client_list {pid}") for pid in servers}
        self._report.clients(
            {pid: () if protocol.gone(one) else protocol.pids(one) for pid, one in answers.items()}
        )

    def _silence(self, error: Silent) -> str:
        """Return what is said of a daemon that does not answer. ControlError: it is replaced.

        One who connects and says nothing silences it. Its clients work on, and would be lost.
        """
        self._silent_since = min(self._silent_since, time.monotonic())
        silent, daemon = time.monotonic() - self._silent_since, self._control.pid
        holders = clients.holders(daemon)
        asked = 0 < self._options.replace_silent <= silent + ANSWER_SECONDS
        nobody = not holders and not clients.servers(daemon) and silent >= ANSWER_SECONDS
        if asked or nobody:
            raise ControlError(error.message, cause=error.cause)
        if holders:
            return f"{error.message}: its control socket is held by {holders}"
        return str(error)
