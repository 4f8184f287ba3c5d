# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Processes that are followed without a thread for each: their ends, by pidfd, and their output."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Final

from .files import started

CHUNK: Final = 4096
PIECES: Final = 32  # more than a pipe holds
Child = subprocess.Popen[bytes]


class Events:
    """Calls back when a descriptor can be read, in the thread that waits. Any thread may add and drop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}

    def add(self, descriptor: int, call: Callable[[], object]) -> None:
        """Call when there may be something to read."""
        self._calls[descriptor] = call
        self._epoll.register(descriptor, select.EPOLLIN)

    def drop(self, descriptor: int) -> None:
        """Close a descriptor, and stop calling back."""
        if self._calls.pop(descriptor, None):
            self._epoll.unregister(descriptor)
            os.close(descriptor)

    def wait(self, seconds: float) -> None:
        """Wait for something to read, at most for so long, and make the calls that are due."""
        for descriptor, _events in self._epoll.poll(seconds):
            if call := self._calls.get(descriptor):
                call()


class Lines:
    """Calls back with each line that can be read from a descriptor; a long one is several."""

    def __init__(self, descriptor: int, events: Events, call: Callable[[bytes], None]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._events, self._call = descriptor, events, call
        self._incomplete = b""
        events.add(descriptor, self.read)

    def read(self) -> bool:
        """Read a piece, so that a process with much output delays no other. Return whether there was one."""
        if self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        if len(self._incomplete) >= CHUNK or not data:
            lines, self._incomplete = [*lines, self._incomplete], b""
        for line in filter(None, lines):
            self._call(line)
        if not data:
            self.close()
        return bool(data)

    def close(self) -> None:
        """Read no more."""
        descriptor, self._descriptor = self._descriptor, -1
        self._events.drop(descriptor)

    def finish(self) -> None:
        """Read what is left, up to a limit, and no more."""
        for _piece in range(PIECES):
            if not self.read():
                break
        self.close()


class Followed:
    """A process that leads a group, a ``child`` or one that an earlier process started.

    When it ends, the rest of its group is ended too, and ``on_end`` is called by the events' thread,
    after what is left of its ``output``. ``status`` is then that of a child.
    """

    def __init__(
        self,
        pid: int,
        events: Events,
        on_end: Callable[[], None],
        child: Child | None = None,
        output: Lines | None = None,
    ) -> None:
        self.pid, self.began = pid, started(pid)
        self.status: int | None = None
        self._events, self._on_end, self._child, self._output = events, on_end, child, output
        self._ended = threading.Event()
        self._descriptor = -1
        with contextlib.suppress(OSError):  # before Linux 5.3; or it is gone already
            self._descriptor = os.pidfd_open(pid)
            events.add(self._descriptor, self.look)

    @property
    def living(self) -> bool:
        """Return whether it runs, as far as was seen."""
        return not self._ended.is_set()

    @property
    def noticed(self) -> bool:
        """Return whether its end is noticed without a call of look()."""
        return self._descriptor >= 0

    def look(self) -> None:
        """Notice its end. Only the events' thread may look."""
        if not self.living or (self.began and started(self.pid) == self.began):
            return
        self._kill_group()  # before its number can be another's
        if self._child is not None:
            self.status = self._child.wait()
        if self._output is not None:
            self._output.finish()
        self._events.drop(self._descriptor)
        self._ended.set()
        self._on_end()

    def kill(self) -> None:
        """End its group, and wait for that."""
        if self.living:
            self._kill_group()
            self._ended.wait()

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most for so long. Return whether it ended."""
        return self._ended.wait(seconds)

    def _kill_group(self) -> None:
        # A number is not reused while its group has a process: another leader means that ours is gone.
        if started(self.pid) in ("", self.began):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
