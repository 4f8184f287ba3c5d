# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a driver says of GPUs: asked in a thread of its own, as it may hang, and remembered for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...tools.chores import Worker


class Queries:
    """``ask`` returns why a GPU can't be had, and must not raise. It is asked again after ``fresh`` seconds."""

    def __init__(
        self,
        name: str,
        ask: Callable[[str], str],
        fresh: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._fresh, self._clock = ask, fresh, clock
        self._worker, self._lock = Worker(name), threading.Lock()
        self._known: dict[str, tuple[float, str]] = {}
        self._due: set[str] = set()

    def last(self, uuid: str, unknown: str) -> str:
        """Return what was said last, ``unknown`` where nothing was; nobody waits for the driver here."""
        with self._lock:
            asked, result = self._known.get(uuid, (float("-inf"), unknown))
            if self._clock() - asked >= self._fresh:
                self._due.add(uuid)
        if self._due:
            self._worker.start(self._ask_all)
        return result

    def now(self, uuid: str) -> str:
        """Return what is said now, or was a moment ago. The driver is waited for."""
        with self._lock:
            asked, result = self._known.get(uuid, (float("-inf"), ""))
        if self._clock() - asked < self._fresh:
            return result
        result = self._ask(uuid)
        with self._lock:
            self._known[uuid] = (self._clock(), result)
            self._due.discard(uuid)
        return result

    def _ask_all(self) -> None:
        with self._lock:
            due = sorted(self._due)
        for uuid in due:
            self.now(uuid)
