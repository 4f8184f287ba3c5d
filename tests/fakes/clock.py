# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A clock that the test moves, in the place of a module's ``time``: sleeping moves it and takes no time."""

from __future__ import annotations

from collections.abc import Callable
from time import gmtime, strftime


class Clock:
    """``now`` are seconds; ``slept`` are the naps that were asked for; ``at`` is called at each with the clock.

    ``monkeypatch.setattr(module, "time", Clock())`` gives one module this clock, and no other one and no other thread.
    """

    def __init__(self, now: float = 0.0, at: Callable[[Clock], None] = lambda _clock: None) -> None:
        self.now, self.at = now, at
        self.slept: list[float] = []

    def time(self) -> float:
        """Return what time it is."""
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        self.slept.append(seconds)
        self.now += seconds
        self.at(self)

    strftime = staticmethod(strftime)
    gmtime = staticmethod(gmtime)
