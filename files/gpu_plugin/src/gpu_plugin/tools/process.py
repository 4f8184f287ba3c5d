# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The loop of a service of systemd: signals, rounds, its state for others, and notifications of systemd."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from . import logs
from .chores import Chore, Wakeup
from .files import StateFile
from .logs import notify

# Returns the state of the last round, and how many seconds ago that was.
Last = Callable[[], tuple[Mapping[str, Any], float]]


class RestartNeeded(Exception):
    """Only a new process can go on, such as after the driver on disk was replaced."""


class Process(ABC):
    """Goes round every ``tick`` seconds, or when wake() is called, until a signal or a round ends it.

    ``status`` has its state for others; the watchdog is fed every ``feed`` seconds.
    """

    SIGNALS: ClassVar[tuple[signal.Signals, ...]] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    ENDS: ClassVar[tuple[signal.Signals, ...]] = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, status: StateFile, tick: float, feed: float) -> None:
        self.status, self._tick, self._feed = status, tick, feed
        # No method, whose name a service could have too: that of the labels had, and wrote no state.
        self.written = Chore(
            "status_file",
            "the status file can't be written",
            lambda: self.status.write(self._last[0]),
        )
        self.stopping = False
        self.signals: set[int] = set()  # those that came
        self._fed_at, self._text = 0.0, ""
        self._last: tuple[Mapping[str, Any], float] = ({}, 0.0)
        self._lines: tuple[str, ...] = ()  # for systemd at the end of the round
        self._wakeup = Wakeup()
        self.wake = self._wakeup.set

    @abstractmethod
    def begin(self) -> int:
        """Do what comes before the service is ready. Return 0, or the exit status if it can't be."""

    @abstractmethod
    def round(self) -> None:
        """Do what is due, and report() the state."""

    @abstractmethod
    def close(self) -> None:
        """Clean up, however the process ends."""

    def run(self) -> int:
        """Run until it is to end. Return the exit status. An error of begin() or a round ends it too."""
        for number in self.SIGNALS:
            signal.signal(number, self._take)
        try:
            if status := self.begin():
                return status
            notify("READY=1")
            while not self.stopping:
                if self.pause():
                    self.round()
        finally:
            if self.stopping:  # else another program may take its place, which systemd would end
                notify("STOPPING=1")
            self.close()
        logs.info("stopped")
        return 0

    def pause(self) -> bool:
        """Wait until the next round is due. Return whether the process goes on."""
        self._wakeup.wait(self._tick)
        return not self.stopping

    def asked(self) -> bool:
        """Return whether a reload was asked for since the last call."""
        result = signal.SIGHUP in self.signals
        self.signals.discard(signal.SIGHUP)
        return result

    def reloading(self) -> bool:
        """Return whether a reload was asked for, which systemd is notified of until the round is over."""
        if not self.asked():
            return False
        notify("RELOADING=1", f"MONOTONIC_USEC={int(time.monotonic() * 1e6)}")
        self._lines = ("READY=1",)
        return True

    def report(self, state: Mapping[str, Any], text: str) -> None:
        """Write the state, which must not change any more; notify systemd of the text, and feed its watchdog."""
        self._last = state, time.monotonic()
        self.written.run()
        lines, self._lines = self._lines, ()
        moment = time.monotonic()
        fed = moment - self._fed_at >= self._feed
        if fed:  # whatever else hangs
            self._fed_at = moment
            if not self.written.error:  # what is there is of an earlier round then
                self.status.still_true()
            lines += ("WATCHDOG=1",)
        if fed or text != self._text:
            self._text = text
            lines += (f"STATUS={text}",)
        if lines:
            notify(*lines)

    def last(self) -> tuple[Mapping[str, Any], float]:
        """Return the state that was reported last, and how many seconds ago that was."""
        state, at = self._last
        return state, time.monotonic() - at

    def _take(self, number: int, _frame: object) -> None:
        self.signals.add(number)
        self.stopping |= number in self.ENDS
        self.wake()
