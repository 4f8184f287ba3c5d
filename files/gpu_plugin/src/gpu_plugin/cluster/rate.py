# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Limits how often something is done, so that many nodes together do not overwhelm what they share."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

QPS, BURST = 5.0, 10  # client-go's, and GPU Feature Discovery's
SPREAD: Final = 0.1


class Rate:
    """At most ``burst`` at once, and ``qps`` a second in the long run; a ``qps`` below 0 is no limit."""

    def __init__(
        self, qps: float = QPS, burst: int = BURST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.qps, self.burst, self._clock = qps, burst, clock
        self._left, self._seen = float(burst), clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take a turn. Return how many seconds to wait for it."""
        if self.qps < 0:
            return 0.0
        with self._lock:
            moment = self._clock()
            passed = max(moment - self._seen, 0.0)
            self._left = min(self._left + passed * self.qps, self.burst) - 1
            self._seen = moment
            return max(-self._left / self.qps, 0.0)

    def ready(self) -> bool:
        """Take a turn if there is one."""
        if self.take() == 0:
            return True
        with self._lock:
            self._left += 1
        return False

    def wait(self) -> None:
        """Wait for a turn."""
        if pause := self.take():
            time.sleep(pause)


def jittered(seconds: float) -> float:
    """Return a period that differs a little each time, so that nodes do not keep in step."""
    return seconds * random.uniform(1 - SPREAD, 1 + SPREAD)
