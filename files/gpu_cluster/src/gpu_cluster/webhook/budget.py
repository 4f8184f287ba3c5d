# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Budgets: the time of a review, and the templates of a namespace. No I/O; for any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.cluster.rate import Rate

from . import limits

ALIKE: Final = (
    "let pods ask for the same amounts, which share a template; unused ones go by themselves"
)
AGAIN: Final = "the pod's controller tries again, or try again yourself"
MOST: Final = {"looked for": limits.LOOKED_AT, "made": limits.MADE}  # a second, and at once


class Late(Exception):
    """The deadline of a review has passed."""


class Deadline:
    """Seconds from now on, for the thread that works on a review: nobody can end a thread but itself."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds

    def look(self) -> None:
        """Check that it has not passed.

        Raises:
            Late: if it has.
        """
        if self._clock() > self._end:
            raise Late


class OverLimit(NodeError):
    """A request exceeds a limit. ``status`` is HTTP's."""

    def __init__(self, message: str, status: int, *, cause: str = "", hint: str = "") -> None:
        super().__init__(message, cause=cause, hint=hint)
        self.status = int(status)


class Budget:
    """The templates of each namespace, and the rates at which they are looked for and made.

    Templates are counted when all are listed; what is made meanwhile is added, by each replica for itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._rates: OrderedDict[str, dict[str, Rate]] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def look(self, namespace: str) -> None:
        """Take the right to look for a template.

        Raises:
            OverLimit: if the namespace has used up its rate.
        """
        self._take(namespace, "looked for")

    def make(self, namespace: str) -> None:
        """Take the right to make a template.

        Raises:
            OverLimit: if the namespace has too many, or has used up its rate.
        """
        if self._counts[namespace] >= limits.MOST_IN_NAMESPACE:
            raise OverLimit(
                f"namespace {namespace} has {self._counts[namespace]} ResourceClaimTemplates of the webhook",
                HTTPStatus.FORBIDDEN,
                cause=f"it gets at most {limits.MOST_IN_NAMESPACE}",
                hint=ALIKE,
            )
        self._take(namespace, "made")

    def made(self, namespace: str) -> None:
        """Count one more template."""
        with self._lock:
            self._counts[namespace] += 1

    def counted(self, counts: Mapping[str, int]) -> None:
        """Set the numbers of templates by namespace."""
        with self._lock:
            self._counts = Counter(counts)

    def _take(self, namespace: str, action: str) -> None:
        with self._lock:
            rates = self._rates.pop(namespace, None) or {
                name: Rate(*most, self._clock) for name, most in MOST.items()
            }
            self._rates[namespace] = rates  # the last one that was asked for
            if len(self._rates) > limits.MOST_NAMESPACES:
                self._rates.popitem(last=False)
        if not rates[action].ready():
            second, once = MOST[action]
            raise OverLimit(
                f"too many ResourceClaimTemplates are {action} for namespace {namespace}",
                HTTPStatus.TOO_MANY_REQUESTS,
                cause=f"at most {second:.0f} a second, and {once} at once",
                hint=AGAIN,
            )
