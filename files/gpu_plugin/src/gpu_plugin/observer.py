# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What happened since the start, as metrics of the Prometheus client, and what the last round found."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import Counter, Histogram, disable_created_metrics

PREFIX: Final = "gpu_plugin_"
BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
MOST_SERIES: Final = 500  # of one metric; what comes after them counts as "other"
OTHER: Final = "other"

ALLOCATIONS: Final = "allocations"
REFUSALS: Final = "refusals"
XIDS: Final = "xids"
REENUMERATIONS: Final = "reenumerations"
REGISTRATIONS: Final = "registrations"
NVML_ERRORS: Final = "nvml_errors"
RELOADS: Final = "config_reloads"
COUNTERS: Final = (
    (ALLOCATIONS, "Allocate calls that were granted.", ("resource",)),
    (REFUSALS, "Calls that were refused.", ("resource", "call", "reason")),
    (XIDS, "XIDs that the driver reported.", ("gpu", "xid")),
    (REENUMERATIONS, "Times that the advertised devices changed.", ("resource",)),
    (REGISTRATIONS, "Registrations with the kubelet.", ("resource", "result")),
    (NVML_ERRORS, "Errors of NVML while looking for GPUs.", ("code",)),
    (RELOADS, "Configurations that were read again.", ("result",)),
)

# No times of when a series began: they are as many series again, which nobody queries.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Observer:
    """Takes note of what happens, from any thread."""

    def __init__(self) -> None:
        self._counters = {
            name: Counter(PREFIX + name, text, labels, registry=None)
            for name, text, labels in COUNTERS
        }
        self._durations = Histogram(
            f"{PREFIX}call_duration_seconds",
            "How long the answer to a call of the kubelet took.",
            ("resource", "call"),
            buckets=BOUNDS,
            registry=None,
        )
        self.metrics: Final = (*self._counters.values(), self._durations)
        self._series: dict[object, set[tuple[str, ...]]] = {one: set() for one in self.metrics}
        self._lock = threading.Lock()
        self._last: tuple[Mapping[str, Any], float] = ({}, 0.0)

    def count(self, what: str, *labels: str) -> None:
        """Add one to a counter, the series of which the labels name."""
        counter = self._counters[what]
        counter.labels(*self._bounded(counter, labels)).inc()

    def took(self, seconds: float, *labels: str) -> None:
        """Note how long something took: ``labels`` are the resource and the call."""
        self._durations.labels(*self._bounded(self._durations, labels)).observe(seconds)

    def round(self, state: Mapping[str, Any]) -> None:
        """Take over the state that the main loop found. It must not change any more."""
        self._last = state, time.monotonic()

    def last(self) -> tuple[Mapping[str, Any], float]:
        """Return the state of the main loop's last round, and how many seconds ago that was."""
        state, at = self._last
        return state, time.monotonic() - at

    def _bounded(self, metric: object, labels: tuple[str, ...]) -> tuple[str, ...]:
        with self._lock:
            series = self._series[metric]
            if labels not in series and len(series) >= MOST_SERIES:
                return (OTHER,) * len(labels)
            series.add(labels)
            return labels
