# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The thread that follows the node: one LIST, and then watches, each from where the one before ended."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Final

from ..cluster.errors import GONE, ApiError
from ..cluster.watch import SECONDS, follow
from ..tools.chores import Backoff
from .api import NodeApi
from .owned import NodeState

LONGEST_PAUSE: Final = 60.0  # between two tries to follow a node
JITTER: Final = 0.5
STILL_KNOWN: Final = (0, 429, 503)  # no answer, or an overloaded server: a watch may go on after it
Told = NodeState | ApiError


class NodeWatch(threading.Thread):
    """Reports the node's state, and each failure, through all that can happen to a connection."""

    def __init__(self, api: NodeApi, report: Callable[[Told], None], pause: float = 1.0) -> None:
        super().__init__(name="node", daemon=True)
        self._api, self._report = api, report
        self._backoff = Backoff(pause, LONGEST_PAUSE, JITTER)
        self._stopping = threading.Event()
        self._last: NodeState | None = None
        self._failing = False

    def run(self) -> None:
        follow(self._list, self._watch, self._failed, self._stopping, self._backoff, STILL_KNOWN)

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _list(self) -> str:
        seen = self._api.read()
        self._tell(seen.node)
        return seen.version

    def _watch(self, since: str) -> Iterator[str]:
        for node, version in self._api.follow(since, random.randint(*SECONDS)):
            self._tell(node or (self._last if self._failing else None))
            if node:
                self._backoff.reset()
            yield version

    def _failed(self, error: ApiError) -> None:
        """Report a failure, unless it is none: the server has forgotten the past."""
        if error.status != GONE:
            self._failing = True
            self._report(error)

    def _tell(self, state: NodeState | None) -> None:
        """Report the node; most changes are the kubelet's, and not of labels."""
        if state is not None and (state != self._last or self._failing):
            self._last, self._failing = state, False
            self._report(state)
