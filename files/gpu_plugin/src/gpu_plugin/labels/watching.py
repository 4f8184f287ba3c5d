# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The thread that follows the node: one LIST, and then watches, each from where the one before ended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..cluster.errors import GONE, ApiError
from ..cluster.rate import SHORTEST, WATCH, jittered
from ..tools import logs
from ..tools.chores import Backoff
from .owned import NodeState

if TYPE_CHECKING:
    from .api import NodeApi

LONGEST_PAUSE: Final = 60.0  # between two tries to follow a node
JITTER: Final = 0.5
STILL_KNOWN: Final = (0, 429, 503)  # no answer, or an overloaded server: a watch may go on after it
Told = NodeState | ApiError


class NodeWatch(threading.Thread):
    """Reports the node's state, and each failure, through all that can happen to a connection."""

    def __init__(self, api: NodeApi, report: Callable[[Told], None], pause: float = 1.0) -> None:
        super().__init__(name="node", daemon=True)
        self._api, self._report, self._pause = api, report, pause
        self._backoff = Backoff(pause, LONGEST_PAUSE, JITTER)
        self._stopping = threading.Event()
        self._last: NodeState | None = None
        self._version = ""  # of the list or the event that was seen last; without one it is listed
        self._failing = False

    def run(self) -> None:
        while not self._stopping.is_set():
            pause = jittered(self._pause)
            try:
                if not self._follow():
                    pause = self._backoff.failed()
            except ApiError as error:
                if not self._resumes(error):
                    pause = self._backoff.failed()
            except Exception as error:  # whatever it is, it must not end the thread unnoticed
                cause = f"{error.__class__.__name__}: {error}"
                self._resumes(ApiError("following the node", cause))
                pause = self._backoff.failed()
            self._stopping.wait(pause)

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _resumes(self, error: ApiError) -> bool:
        """Take a failure over. Returns whether it is none: the server has forgotten the past."""
        if error.status not in STILL_KNOWN:
            self._version = ""
        if error.status == GONE:
            return True
        self._failing = True
        self._report(error)
        return False

    def _follow(self) -> bool:
        """Watch once, after a look at the node where it is not known. Returns whether it lasted, as a watch should."""
        if not self._version:
            seen = self._api.read()
            self._version = seen.version
            self._tell(seen.node)
        began = time.monotonic()
        for news in self._api.follow(self._version, random.randint(*WATCH)):
            self._version = news.version
            self._tell(news.node or (self._last if self._failing else None))
            if news.node:
                self._backoff.reset()
            if self._stopping.is_set():
                return True
        lasted = time.monotonic() - began
        if lasted > WATCH[0] / 2:
            self._backoff.reset()
        return lasted >= SHORTEST

    def _tell(self, state: NodeState | None) -> None:
        """Report the node; most changes are the kubelet's, and not of labels."""
        if state is not None and (state != self._last or self._failing):
            self._last, self._failing = state, False
            self._report(state)


class Watched:
    """Keeps a watch of the node going: one that has ended all the same is begun anew."""

    def __init__(self, begin: Callable[[], NodeWatch]) -> None:
        self._begin = begin
        self._watch: NodeWatch | None = None
        self._backoff = Backoff(1.0, LONGEST_PAUSE)
        self._next = 0.0

    def keep(self) -> None:
        """Begin, or begin anew; to be called again and again."""
        now = time.monotonic()
        if (self._watch is not None and self._watch.is_alive()) or now < self._next:
            return
        if self._watch is not None:
            logs.error("the watch of the node has ended, starting over")
        self._next = now + self._backoff.failed()
        self._watch = self._begin()
        self._watch.start()
