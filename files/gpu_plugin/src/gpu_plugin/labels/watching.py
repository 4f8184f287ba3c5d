# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Follows a node in a thread, through all that can happen to a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from ..backoff import Backoff
from .api import GONE, ApiError
from .owned import NodeState

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class Source(Protocol):
    """A connection to the API."""

    def read(self) -> tuple[NodeState, str]:
        """Return the node and the version to follow it from."""

    def follow(self, version: str) -> Iterator[NodeState]:
        """Yield the node each time that it changed, until the connection ends."""

    def close(self) -> None:
        """Let go of the connection."""


class NodeWatch(threading.Thread):
    """Tells the node's state, and each failure, through ``tell``, until the process ends."""

    def __init__(
        self,
        connect: Callable[[], Source],
        tell: Callable[[NodeState | ApiError], None],
        pause: float = FIRST_PAUSE,
    ) -> None:
        super().__init__(name="node", daemon=True)
        self._connect = connect
        self._tell = tell
        self._first = pause
        self._backoff = Backoff(pause, LONGEST_PAUSE)
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
                self._stopping.wait(self._first)
            except ApiError as error:
                if error.status == GONE:  # the list is read anew, which is all that is asked for
                    self._stopping.wait(self._first)
                    continue
                self._tell(error)
                self._stopping.wait(self._backoff.failed())

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _follow(self) -> None:
        source = self._connect()
        try:
            state, version = source.read()
            self._backoff.reset()
            last = state
            self._tell(state)
            for state in source.follow(version):
                if self._stopping.is_set():
                    return
                if state != last:  # most changes are the kubelet's, and not of labels
                    last = state
                    self._tell(state)
        finally:
            source.close()
