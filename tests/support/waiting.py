# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Wait for what a test needs. The limit ends a hang; it says nothing of how fast anything has to be."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

LIMIT = float(os.environ.get("TEST_LIMIT", "240"))  # seconds
PAUSE = 0.03  # seconds between two looks
# Of the processor, for what takes a fraction of one: a pattern that backtracks fails instead of hanging.
PROCESSOR_SECONDS = 20.0
ANYTHING = object()
T = TypeVar("T")


def eventually(look: Callable[[], T], expected: Any = ANYTHING, *, limit: float = LIMIT) -> T:
    """Return the first answer that is true, or as expected. AssertionError: none was.

    What each thread does then is on standard error, which a report of a failure shows. A command that
    fails is no answer yet.
    """
    end = time.monotonic() + limit
    while True:
        answer: Any = None
        with contextlib.suppress(subprocess.CalledProcessError):
            answer = look()
            if answer if expected is ANYTHING else answer == expected:
                return answer  # type: ignore[no-any-return]
        late = time.monotonic() >= end
        if late:
            sys.stderr.write(stacks())
        wanted = "a true answer" if expected is ANYTHING else repr(expected)
        assert not late, f"still {answer!r} and not {wanted} after {limit:.0f} seconds"
        time.sleep(PAUSE)


def unchanged(
    look: Callable[[], T], expected: T, passes: Callable[[], int], times: int = 3
) -> None:
    """See that an answer stays as it is while something happens so many times more, as passes() counts it."""
    first = passes()

    def done() -> bool:
        found = look()
        assert found == expected, f"{found!r} and no longer {expected!r}"
        return passes() >= first + times

    eventually(done)


def stacks() -> str:
    """Return what each thread of this process does."""
    with tempfile.TemporaryFile("w+") as stream:
        faulthandler.dump_traceback(stream)
        stream.seek(0)
        return stream.read()


@contextlib.contextmanager
def alarm(seconds: float = PROCESSOR_SECONDS) -> Iterator[None]:
    """End what takes more processor time than this, whatever else the machine does. For the main thread alone.

    Raises:
        AssertionError: if it took more.
    """

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
