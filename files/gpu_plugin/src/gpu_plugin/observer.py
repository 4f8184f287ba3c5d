# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What happened since the start, in numbers: everybody may count, and telemetry tells.

Counting takes a microsecond and needs no library, so that it may happen in the kubelet's calls.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
MOST_SERIES: Final = 500  # of one counter; what comes after them counts as "other"
OTHER: Final = "other"
Labels = tuple[str, ...]

ALLOCATIONS: Final = "allocations"  # resource
REFUSALS: Final = "refusals"  # resource, call, reason
XIDS: Final = "xids"  # gpu, xid
REENUMERATIONS: Final = "reenumerations"  # resource
REGISTRATIONS: Final = "registrations"  # resource, result
NVML_ERRORS: Final = "nvml_errors"  # code
RELOADS: Final = "config_reloads"  # result


@dataclass
class Durations:
    """How often something took so long: counts by the bounds of above, and the sum in seconds."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0


@dataclass(frozen=True)
class Seen:
    """All numbers at one time. ``ran_at`` is when the main loop last went round, monotonic."""

    counts: Mapping[str, Mapping[Labels, int]]
    durations: Mapping[Labels, Durations]
    state: Mapping[str, Any]
    ran_at: float


class Observer:
    """Takes note of what happens, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, int]] = {}
        self._durations: dict[Labels, Durations] = {}
        self._state: Mapping[str, Any] = {}
        self._ran_at = 0.0

    def count(self, what: str, *labels: str, by: int = 1) -> None:
        """Add to a counter, the series of which the labels name."""
        with self._lock:
            series = self._counts.setdefault(what, {})
            if labels not in series and len(series) >= MOST_SERIES:
                labels = (OTHER,) * len(labels)
            series[labels] = series.get(labels, 0) + by

    def took(self, seconds: float, *labels: str) -> None:
        """Note how long something took: ``labels`` are the resource and the call."""
        place = bisect_left(BOUNDS, seconds)
        with self._lock:
            found = self._durations.get(labels)
            if found is None:
                found = self._durations[labels] = Durations()
            found.buckets[place] += 1
            found.total += seconds

    def round(self, state: Mapping[str, Any]) -> None:
        """Take over the state that the main loop found. It must not change any more."""
        self._state, self._ran_at = state, time.monotonic()

    def seen(self) -> Seen:
        """Return a copy of the numbers."""
        with self._lock:
            return Seen(
                {what: dict(series) for what, series in self._counts.items()},
                {
                    labels: Durations(list(one.buckets), one.total)
                    for labels, one in self._durations.items()
                },
                self._state,
                self._ran_at,
            )
