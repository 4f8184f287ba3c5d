# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long to wait before what failed is tried again."""

from __future__ import annotations

import random
from typing import Final

JITTER: Final = 0.25
DOUBLINGS: Final = 20


class Backoff:
    """Pauses in seconds, each twice the one before, from ``first`` to ``longest``.

    Each is shorter by up to ``jitter`` of itself, so that nodes that failed together do not come back
    together; 0 is for what only this node is asked.
    """

    def __init__(self, first: float, longest: float, jitter: float = JITTER) -> None:
        self._first, self._longest, self._jitter = first, longest, jitter
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; return the pause until the next try."""
        pause: float = min(self._first * 2 ** min(self.failures, DOUBLINGS), self._longest)
        self.failures += 1
        return pause * random.uniform(1 - self._jitter, 1)

    def reset(self) -> None:
        """Begin with the first pause again: it worked."""
        self.failures = 0
