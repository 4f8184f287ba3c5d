# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Counters of events since the start, as metrics of the Prometheus client."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

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
    (XIDS, "XIDs that the driver reported.", ("gpu", "xid", "action")),
    (REENUMERATIONS, "Times that the advertised devices changed.", ("resource",)),
    (REGISTRATIONS, "Registrations with the kubelet.", ("resource", "result")),
    (NVML_ERRORS, "Errors of NVML while looking at GPUs.", ("gpu", "code")),
    (RELOADS, "Configurations that were read again.", ("result",)),
)
DURATION: Final = "call_duration_seconds"
MOST_EARLIER: Final = 10_000  # events before the first request for metrics; the newest are kept


class Observer:
    """Counts events and measures calls, from any thread."""

    def __init__(self) -> None:
        self._earlier: deque[tuple[str, float, tuple[str, ...]]] = deque(maxlen=MOST_EARLIER)
        self._metrics: dict[str, Any] = {}
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._lock = threading.Lock()

    @property
    def metrics(self) -> tuple[Any, ...]:
        """The metrics of the Prometheus client, which is loaded on their first use, after the start."""
        made = self._metrics or _metrics()
        with self._lock:
            self._metrics = self._metrics or made
            while self._earlier:
                self._add(*self._earlier.popleft())
        return tuple(self._metrics.values())

    def count(self, metric: str, *labels: str) -> None:
        """Add one to a counter, the series of which the labels name."""
        self._note(metric, 1.0, labels)

    def took(self, seconds: float, *labels: str) -> None:
        """Note how long something took: ``labels`` are the resource and the call."""
        self._note(DURATION, seconds, labels)

    def _note(self, metric: str, amount: float, labels: tuple[str, ...]) -> None:
        with self._lock:
            if self._metrics:
                self._add(metric, amount, labels)
            else:
                self._earlier.append((metric, amount, labels))

    def _add(self, metric_name: str, amount: float, labels: tuple[str, ...]) -> None:
        series = self._series.setdefault(metric_name, set())
        if labels not in series and len(series) >= MOST_SERIES:
            labels = (OTHER,) * len(labels)
        series.add(labels)
        metric = self._metrics[metric_name].labels(*labels)
        (metric.observe if metric_name == DURATION else metric.inc)(amount)


def _metrics() -> dict[str, Any]:
    from prometheus_client import Counter, Histogram, disable_created_metrics

    # No times of when a series began: they are as many series again, which nobody queries.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    metrics: dict[str, Any] = {
        name: Counter(PREFIX + name, text, labels, registry=None) for name, text, labels in COUNTERS
    }
    text = "How long the answer to a call of the kubelet took."
    labels = ("resource", "call")
    metrics[DURATION] = Histogram(PREFIX + DURATION, text, labels, buckets=BOUNDS, registry=None)
    return metrics
