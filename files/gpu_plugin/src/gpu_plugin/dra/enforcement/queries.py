# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Answers of the driver about GPUs: asked for in a thread of its own, as it may hang, and cached for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...tools.chores import Worker


class Queries:
    """Answers of ``ask``: why a GPU can't be used. It must not raise, and is called again after ``fresh`` seconds."""

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

    def last_answer(self, uuid: str, unknown: str) -> str:
        """Return the last answer without waiting for the driver, ``unknown`` if there is none yet."""
        with self._lock:
            asked, result = self._known.get(uuid, (float("-inf"), unknown))
            if self._clock() - asked >= self._fresh:
                self._due.add(uuid)
            due = sorted(self._due)
        if due:
            self._worker.start(lambda: [self.answer(each) for each in due])
        return result

    def answer(self, uuid: str) -> str:
        """Return the answer, which is asked for unless it is fresh. The driver is waited for."""
        with self._lock:
            asked, result = self._known.get(uuid, (float("-inf"), ""))
        if self._clock() - asked < self._fresh:
            return result
        result = self._ask(uuid)
        with self._lock:
            self._known[uuid] = (self._clock(), result)
            self._due.discard(uuid)
        return result
