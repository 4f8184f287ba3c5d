# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What was counted, as metric families of the Prometheus client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .. import observer
from ..observer import BOUNDS, Seen

PREFIX: Final = "gpu_plugin_"
MPS_STATES: Final = ("starting", "ready", "failed", "stopping", "crashed")
# Name, what it counts, and the labels in the order in which the observer has them.
COUNTERS: Final = (
    (observer.ALLOCATIONS, "Allocate calls that were granted.", ("resource",)),
    (observer.REFUSALS, "Calls that were refused.", ("resource", "call", "reason")),
    (observer.XIDS, "XIDs that the driver reported.", ("gpu", "xid")),
    (observer.REENUMERATIONS, "Times that the advertised devices changed.", ("resource",)),
    (observer.REGISTRATIONS, "Registrations with the kubelet.", ("resource", "result")),
    (observer.NVML_ERRORS, "Errors of NVML while looking for GPUs.", ("code",)),
    (observer.RELOADS, "Configurations that were read again.", ("result",)),
)
DURATION: Final = "How long the answer to a call of the kubelet took."


class Families(Collector):
    """``look`` returns what was counted, ``mps`` the states of the MPS daemons."""

    def __init__(
        self, look: Callable[[], Seen], mps: Callable[[], Iterable[Mapping[str, Any]]]
    ) -> None:
        self._look = look
        self._mps = mps

    def collect(self) -> Iterator[Metric]:
        """Return all families, with those that have nothing to tell yet."""
        seen = self._look()
        for name, help_, labels in COUNTERS:
            family = CounterMetricFamily(PREFIX + name, help_, labels=labels)
            for values, count in sorted(seen.counts.get(name, {}).items()):
                family.add_metric(values, count)
            yield family
        yield _durations(seen)
        yield from _state(seen.state)
        yield from _mps(list(self._mps()))


def _gauge(name: str, help_: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, help_, labels=labels)


def _durations(seen: Seen) -> Metric:
    name = PREFIX + "call_duration_seconds"
    family = HistogramMetricFamily(name, DURATION, labels=("resource", "call"))
    bounds = [*map(str, BOUNDS), "+Inf"]
    for labels, one in sorted(seen.durations.items()):
        sums = itertools.accumulate(one.buckets)
        family.add_metric(labels, list(zip(bounds, sums, strict=True)), one.total)
    return family


def _state(state: Mapping[str, Any]) -> Iterator[Metric]:
    build = _gauge("build_info", "The daemon's version.", "version")
    driver = _gauge("driver_info", "The driver's version, while it answers.", "version")
    config = _gauge("config_info", "The configuration in force, by its digest.", "sha256")
    refused = _gauge("config_refused", "Whether the configuration on disk can't be used.")
    available = _gauge("driver_available", "Whether the driver answers.")
    devices = _gauge("devices", "Devices advertised.", "resource", "health")
    registered = _gauge("registered", "Whether the kubelet knows of a resource.", "resource")
    if state:
        build.add_metric([state["version"]], 1)
        if state["driver_version"]:
            driver.add_metric([state["driver_version"]], 1)
        config.add_metric([state["config_sha256"]], 1)
        refused.add_metric([], bool(state["config_problem"]))
        available.add_metric([], state["state"] != "waiting_for_driver")
        for name, resource in state["resources"].items():
            unhealthy = len(resource["problems"])
            devices.add_metric([name, "healthy"], len(resource["devices"]) - unhealthy)
            devices.add_metric([name, "unhealthy"], unhealthy)
            registered.add_metric([name], resource["registered"])
    yield from (build, driver, config, refused, available, devices, registered)


def _mps(daemons: list[Mapping[str, Any]]) -> Iterator[Metric]:
    state = _gauge("mps_state", "1 for the state of a device's MPS daemon.", "device", "state")
    replicas = _gauge("mps_replicas", "Shares of a device.", "device")
    servers = _gauge("mps_servers", "MPS servers of a device.", "device")
    clients = _gauge("mps_clients", "Clients of a device's MPS servers.", "device")
    name, help_ = PREFIX + "mps_restarts", "Restarts of a device's MPS daemon."
    restarts = CounterMetricFamily(name, help_, labels=("device",))
    for one in daemons:
        device = [one["device"]]
        for name in MPS_STATES:
            state.add_metric([*device, name], name == one["state"])
        replicas.add_metric(device, one["replicas"])
        servers.add_metric(device, len(one["servers"]))
        clients.add_metric(device, one["clients"])
        restarts.add_metric(device, one["restarts"])
    yield from (state, replicas, servers, clients, restarts)
