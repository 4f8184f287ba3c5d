# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Follows a node in a thread, through all that can happen to a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..tools.backoff import Backoff
from .owned import GONE, ApiError, NodeState

if TYPE_CHECKING:
    from .api import NodeApi

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class NodeWatch(threading.Thread):
    """Reports the node's state, and each failure, until the process ends."""

    def __init__(
        self,
        connect: Callable[[], NodeApi],
        report: Callable[[NodeState | ApiError], None],
        pause: float = FIRST_PAUSE,
    ) -> None:
        super().__init__(name="node", daemon=True)
        self._connect = connect
        self._report = report
        self._first = pause
        self._backoff = Backoff(pause, LONGEST_PAUSE)
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            pause = self._first
            try:
                self._follow()
            except ApiError as error:
                if error.status != GONE:  # which only asks for the list to be read again
                    self._report(error)
                    pause = self._backoff.failed()
            self._stopping.wait(pause)

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _follow(self) -> None:
        connection = self._connect()
        try:
            last, version = connection.read()
            self._backoff.reset()
            self._report(last)
            for state in connection.follow(version):
                if self._stopping.is_set():
                    return
                if state != last:  # most changes are the kubelet's, and not of labels
                    last = state
                    self._report(state)
        finally:
            connection.close()
