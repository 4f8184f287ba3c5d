# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps a device's control daemon up, and the limits of its clients in place."""

from __future__ import annotations

import threading
import time
from typing import Final

from ... import logs
from ..._shared._core.errors import NodeError
from ..._shared._nvml.real import open_nvml
from ...backoff import Backoff
from .. import protocol
from ..paths import Names
from ..protocol import ControlError, Silent
from ..settings import READ_WRITE
from ..shares import Shares
from . import folders, peers
from .control import ANSWER_SECONDS, START_SECONDS, Control
from .options import Options
from .remembered import Remembered
from .report import FAILED, READY, STARTING, Report

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
MODE_ROUNDS: Final = 5  # each look at the compute mode opens the driver


class Keeper:
    """Ends a daemon that lives only where nobody loses anything by it, or the options say so."""

    def __init__(
        self,
        names: Names,
        control: Control,
        shares: Shares,
        report: Report,
        remembered: Remembered,
        options: Options,
    ) -> None:
        self._names, self._control = names, control
        self._shares, self._report = shares, report
        self._remembered, self._options = remembered, options
        self._ready_since: float | None = None
        self._silent_since: float | None = None
        self._in_place = False  # the limits, as far as was read back
        self._rounds = 0

    def keep(self, stop: threading.Event, wake: threading.Event) -> None:
        """Return when it is told to stop."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0)
        while not stop.is_set():
            self._report.alive()
            try:
                self._bring_up()
                self._watch(stop, wake)
            except NodeError as error:
                self._control.kill()
                if self._steady():
                    backoff.reset()
                self._ready_since = self._silent_since = None
                self._report.restarted()
                self._report.state(FAILED, problem=str(error))
                stop.wait(backoff.failed())

    def _steady(self) -> bool:
        since = self._ready_since
        return since is not None and time.monotonic() - since > self._options.steady

    def _bring_up(self) -> None:
        """Start a daemon where no client can reach it, and let them once its limits are in place."""
        self._report.state(STARTING)
        own = folders.fresh(self._names)
        self._control.start(own)
        self._remembered.daemon(self._control.pid)
        self._control.ask(protocol.SERVERS, START_SECONDS)
        self._set_limits()
        everything = self._options.settings.pipe_access == READ_WRITE
        folders.publish(self._names, own, everything=everything)
        self._ready_since = time.monotonic()
        self._report.pipe(str(own))
        self._report.state(READY, self._control.pid)

    def _set_limits(self) -> None:
        self._in_place = False
        read_back = {}
        for setting in protocol.settings(self._shares.default):
            self._control.ask(setting.set)
            read_back[setting.name] = protocol.check(setting, self._control.ask(setting.get))
        self._in_place = True
        self._report.limits(read_back)

    def _watch(self, stop: threading.Event, wake: threading.Event) -> None:
        """Return when it is told to stop. ControlError: the daemon has to be started again."""
        before = ""
        while True:
            self._report.alive()
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
        self._silent_since = None
        return ""

    def _look(self) -> None:
        answer = self._control.ask(protocol.poll())
        servers, kept = protocol.polled(answer, self._shares.default)
        if not kept:
            logs.warning("somebody changed the limits, setting them again")
        if not (kept and self._in_place):
            self._set_limits()
        self._keep_exclusive()
        self._report.clients({pid: self._clients(pid) for pid in servers})

    def _keep_exclusive(self) -> None:
        """Let nobody past the limits: a MIG device has no compute mode, a GPU has."""
        self._rounds += 1
        if not self._options.device.startswith("GPU-") or self._rounds % MODE_ROUNDS:
            return
        with open_nvml():
            if self._remembered.keep_exclusive():
                logs.warning(
                    "somebody changed the compute mode, setting EXCLUSIVE_PROCESS again",
                    gpu=self._options.device,
                )

    def _silence(self, error: Silent) -> str:
        """Return what is said of a daemon that does not answer. ControlError: it is replaced.

        One who connects and says nothing silences it. Its clients work on, and would be lost.
        """
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        silent, daemon = now - self._silent_since, self._control.pid
        holders = peers.holders(daemon)
        asked = 0 < self._options.replace_silent <= silent + ANSWER_SECONDS
        nobody = not holders and not peers.servers(daemon) and silent >= ANSWER_SECONDS
        if asked or nobody:
            raise ControlError(error.message, cause=error.cause)
        if holders:
            return f"{error.message}: its control socket is held by {holders}"
        return str(error)

    def _clients(self, server: int) -> tuple[int, ...]:
        answer = self._control.ask(protocol.clients_of(server))
        return () if protocol.gone(answer) else protocol.pids(answer)
