# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ends the wait of the main loop, from other threads and from signal handlers."""

from __future__ import annotations

import contextlib
import os
import select


class Wakeup:
    """Unlike threading.Event it may be set by a signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def set(self) -> None:
        """End a wait, or the next one."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        """Wait until somebody ends it, at most for so long."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)
