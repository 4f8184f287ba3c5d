# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When a review is to be over, for the thread that works on it: nobody can end a thread but itself."""

from __future__ import annotations

import time
from collections.abc import Callable


class Late(Exception):
    """Nobody waits for an answer any more."""


class Deadline:
    """Seconds from now on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds

    def look(self) -> None:
        """Late: it has passed."""
        if self._clock() > self._end:
            raise Late
