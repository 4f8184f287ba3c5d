# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Wait for what a test needs. The limit ends a hang; it says nothing of how fast anything has to be."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

LIMIT = float(os.environ.get("TEST_LIMIT", "240"))  # seconds
PAUSE = 0.03  # seconds between two looks
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
