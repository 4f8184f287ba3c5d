# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An end for what must not take long, by the processor time of this process: a busy machine changes nothing.

A pattern that backtracks, or a loop that grows with the square of its input, fails instead of hanging.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SECONDS = 20.0  # of the processor; what is asked for here takes a fraction of one


@contextlib.contextmanager
def alarm(seconds: float = SECONDS) -> Iterator[None]:
    """End what takes more of the processor than this. AssertionError: it did. For the main thread alone."""

    def ring(_number: int, frame: FrameType | None) -> None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"
        raise AssertionError(f"more than {seconds} seconds of the processor, at {where}")

    before = signal.signal(signal.SIGVTALRM, ring)
    left, _interval = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, left)
        signal.signal(signal.SIGVTALRM, before)
