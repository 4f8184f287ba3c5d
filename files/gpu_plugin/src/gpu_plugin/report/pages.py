# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages that the endpoint serves: metrics for Prometheus, and probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .._shared._device_plugin.resources import HEALTHY, count
from .._shared._node.quarantine import GATE
from .._shared._repair.signs import ACTIONS, Action
from ..mps import state as mps_state
from ..observer import MOST_SERIES, PREFIX, Observer
from ..tools.process import Last
from .endpoint import Page, probe_page
from .probes import health, readiness

MPS_STATES: Final = ("starting", "ready", "failed", "stopping", "crashed")


class Families(Collector):
    """The daemon's metric families, made of its state and of the states of the MPS daemons."""

    def __init__(
        self, state: Callable[[], Mapping[str, Any]], mps: Callable[[], Iterable[Mapping[str, Any]]]
    ) -> None:
        self._state = state
        self._mps = mps

    def collect(self) -> Iterator[Metric]:
        """Yield all families, also those without samples."""
        yield from _state(self._state())
        yield from _mps(self._mps())


def gauge(name: str, help_: str, *labels: str) -> GaugeMetricFamily:
    """Return a family of gauges without samples."""
    return GaugeMetricFamily(PREFIX + name, help_, labels=labels)


def _state(state: Mapping[str, Any]) -> Iterator[Metric]:
    build = gauge("build_info", "The device plugin's version.", "version")
    driver = gauge("driver_info", "The driver's version, while it answers.", "version")
    config = gauge("config_info", "The configuration in force, by its digest.", "sha256")
    refused = gauge("config_refused", "Whether the configuration on disk can't be used.")
    text = "Whether the last good configuration is in force, since a start could not use the one on disk."
    fallback = gauge("config_fallback", text)
    available = gauge("driver_available", "Whether the driver answers.")
    devices = gauge("devices", "Devices advertised.", "resource", "health")
    health = gauge("device_health", "1 for a healthy device, else 0.", "uuid", "index", "reason")
    registered = gauge("registered", "Whether the kubelet knows of a resource.", "resource")
    slow = gauge("driver_slow", "Whether the driver takes long over a GPU.", "uuid")
    text = "What to do about a GPU, from 0 for nothing to 8 for a replacement."
    actions = gauge("recovery_action", text, "uuid", "index")
    text = "1 for a GPU that somebody has set aside, else 0."
    quarantined = gauge("quarantined", text, "uuid", "index")
    text = "1 for a GPU that the node's gate lets in, 0 for one that it holds."
    accepted = gauge("accepted", text, "uuid", "index")
    text = "1 for a setting of a GPU that is not as declared, else 0."
    drifted = gauge("setting_drifted", text, "uuid", "index", "setting")
    vanished = gauge("vanished_devices", "Devices that pods have and that no GPU has any more.")
    chores = gauge("chore_failed", "Whether background work failed the last time.", "chore")
    if state:
        build.add_metric([state["version"]], 1)
        if state["driver_version"]:
            driver.add_metric([state["driver_version"]], 1)
        config.add_metric([state["config_sha256"]], 1)
        refused.add_metric([], bool(state["config_problem"]))
        fallback.add_metric([], state["config_fallback"])
        available.add_metric([], state["state"] != "waiting_for_driver")
        for name, resource in state["resources"].items():
            healthy = count(resource, HEALTHY)
            devices.add_metric([name, "healthy"], healthy)
            devices.add_metric([name, "unhealthy"], count(resource) - healthy)
            registered.add_metric([name], resource["registered"])
        for device in state["devices"][:MOST_SERIES]:
            labels = [device["uuid"], device["index"], device["reason"]]
            health.add_metric(labels, not device["reason"])
        for uuid, index in zip(state["gpu_uuids"], state["gpu_indices"], strict=True):
            slow.add_metric([uuid], uuid in state["slow"])
            verdict = state["verdicts"].get(uuid)
            number = ACTIONS[verdict["verdict"]] if verdict else Action.NONE
            actions.add_metric([uuid, index], number)
        quarantine, indices = state["quarantine"], dict.fromkeys(state["quarantine"]["gpus"], "")
        indices |= zip(state["gpu_uuids"], state["gpu_indices"], strict=True)
        for uuid, index in indices.items():  # also of GPUs that are gone, which have no index
            quarantined.add_metric([uuid, index], is_aside(quarantine, uuid, by_gate=False))
            if state["gated"]:
                accepted.add_metric([uuid, index], not is_aside(quarantine, uuid, by_gate=True))
        for setting in state["settings"][:MOST_SERIES]:
            labels = [setting["uuid"], setting["index"], setting["setting"]]
            drifted.add_metric(labels, setting["drifted"])
        vanished.add_metric([], len({allocation["device"] for allocation in state["vanished"]}))
        for name, error in state["chores"].items():
            chores.add_metric([name], error is not None)
    yield from (build, driver, config, refused, fallback, available)
    yield from (devices, health, registered, slow, actions, quarantined, accepted, drifted)
    yield from (vanished, chores)


def is_aside(quarantine: Mapping[str, Any], uuid: str, *, by_gate: bool) -> bool:
    """Return whether a GPU is set aside by its node's gate, or otherwise by anybody else."""
    entries = (quarantine["gpus"].get(uuid), quarantine["node"])
    return any(entry and (entry["by"] == GATE) == by_gate for entry in entries)


def _mps(daemons: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    state = gauge(
        "mps_state", "1 for the state of a device's MPS control daemon.", "device", "state"
    )
    replicas = gauge("mps_replicas", "Shares of a device.", "device")
    servers = gauge("mps_servers", "MPS servers of a device.", "device")
    clients = gauge("mps_clients", "Clients of a device's MPS servers.", "device")
    name, help_ = PREFIX + "mps_restarts", "Restarts of a device's MPS control daemon."
    restarts = CounterMetricFamily(name, help_, labels=("device",))
    for daemon in daemons:
        device = [daemon["device"]]
        for name in MPS_STATES:
            state.add_metric([*device, name], name == daemon["state"])
        replicas.add_metric(device, daemon["replicas"])
        servers.add_metric(device, len(daemon["servers"]))
        clients.add_metric(device, daemon["clients"])
        restarts.add_metric(device, daemon["restarts"])
    yield from (state, replicas, servers, clients, restarts)


def pages(observer: Observer, last: Last, mps_root: Callable[[], str]) -> dict[str, Page]:
    """Return the daemon's pages by their path."""
    families = Families(lambda: last()[0], lambda: mps_state.load(Path(mps_root())))
    return served(observer, last, families, readiness)


def served(
    observer: Observer,
    last: Last,
    families: Collector,
    ready: Callable[[Mapping[str, Any], float], str],
) -> dict[str, Page]:
    """Return the pages of a process by their path: its metrics, its liveness, and whether it is ``ready``."""
    registry = CollectorRegistry(auto_describe=False)
    for metric in observer.metrics:
        registry.register(metric)
    registry.register(families)
    ProcessCollector(registry=registry)
    return {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: probe_page(health(*last())),
        "/readyz": lambda: probe_page(ready(*last())),
    }
