# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps one plugin a resource running and registered."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .. import logs
from .._shared._core.errors import NodeError
from ..backoff import Backoff
from ..config.configuration import Config
from ..observer import REENUMERATIONS, REGISTRATIONS, Observer
from ..offer.devices import Device, Devices, Resources
from ..offer.topology import Topology
from .registration import register
from .server import Around, Identity, ResourceServer, identity

RETRY, LONGEST_RETRY = 0.5, 5.0
UNWATCHED: Final = 10.0
DEAF: Final = 2


class _Plugin:
    """A resource's server, and how its registration stands."""

    def __init__(self, server: ResourceServer) -> None:
        self.server = server
        self.kubelet: Identity | None = None  # the kubelet that knows of it
        self.backoff = Backoff(RETRY, LONGEST_RETRY, jitter=0)  # the kubelet is this node's own
        self.retry_at = 0.0
        self.watched_at = 0.0
        self.unheard = 0  # how often it was registered since the kubelet last listened
        self.displaced = False


class Manager:
    """The plugins of a node. Everything but the answers to the kubelet happens in sync and tick."""

    def __init__(
        self,
        kubelet_socket: Path,
        around: Around,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer | None = None,
    ) -> None:
        self._socket = kubelet_socket
        self._around = around
        self._clock = clock
        self._observer = observer or Observer()
        self._plugins: dict[str, _Plugin] = {}
        self.topology = Topology()

    def sync(self, resources: Resources, config: Config) -> None:
        """Offer these resources and no others."""
        for name in [name for name in self._plugins if name not in resources]:
            logs.info("resource is gone", resource=name)
            self._plugins.pop(name).server.stop(retire=True)
        for name, devices in resources.items():
            if name not in self._plugins:
                server = ResourceServer(
                    name,
                    self._socket.parent,
                    config,
                    self._around,
                    lambda: self.topology,
                    self._observer,
                )
                self._plugins[name] = _Plugin(server)
            server = self._plugins[name].server
            if _tell(name, server.devices, devices):
                self._observer.count(REENUMERATIONS, name)
            server.config = config
            server.publish(devices)
        self.tick()

    def tick(self) -> None:
        """Bring back what is missing: sockets that were removed, registrations that were lost."""
        kubelet = identity(self._socket)
        now = self._clock()
        for plugin in self._plugins.values():
            if now < plugin.retry_at:
                continue
            try:
                if self._gave_way(plugin, now):
                    continue
                self._revive(plugin)
                if kubelet is None:
                    plugin.kubelet = None
                elif plugin.kubelet != kubelet or self._unwatched(plugin, now):
                    self._register(plugin, kubelet, now)
                plugin.backoff.reset()
            except (NodeError, OSError) as error:
                plugin.kubelet = None
                self._observer.count(REGISTRATIONS, plugin.server.resource, "failed")
                if not plugin.backoff.failures:
                    name = plugin.server.resource
                    logs.warning("not registered, trying again", resource=name, cause=error)
                plugin.retry_at = now + plugin.backoff.failed()
                return  # what fails for one is slow to fail for all

    def registered(self) -> dict[str, bool]:
        """Return for each resource whether the kubelet knows of it."""
        return {name: plugin.kubelet is not None for name, plugin in self._plugins.items()}

    def devices(self) -> dict[str, Devices]:
        """Return what is offered now."""
        return {name: plugin.server.devices for name, plugin in self._plugins.items()}

    def stop(self) -> None:
        """Stop all plugins and remove their sockets."""
        for plugin in self._plugins.values():
            plugin.server.stop()
        self._plugins.clear()

    def _register(self, plugin: _Plugin, kubelet: Identity, now: float) -> None:
        """Tell the kubelet of a plugin. One that it never listens to gets a new server first."""
        if plugin.unheard >= DEAF:
            logs.warning(
                "the kubelet does not connect, restarting the server",
                resource=plugin.server.resource,
            )
            plugin.server.stop()
            plugin.server.start()
            plugin.unheard = 0
        register(self._socket, plugin.server.socket.name, plugin.server.resource)
        logs.info("registered", resource=plugin.server.resource)
        self._observer.count(REGISTRATIONS, plugin.server.resource, "accepted")
        plugin.kubelet, plugin.watched_at = kubelet, now
        plugin.unheard += 1

    @staticmethod
    def _gave_way(plugin: _Plugin, now: float) -> bool:
        """Tell whether another process serves the resource in this one's place.

        The kubelet keeps to who registered last, and two that each take it back would never end.
        """
        displaced = plugin.server.displaced
        if displaced and not plugin.displaced:
            logs.error(
                "another plugin serves this resource, waiting for it to end",
                resource=plugin.server.resource,
                socket=plugin.server.socket,
            )
        plugin.displaced = displaced
        if displaced:
            plugin.kubelet, plugin.retry_at = None, now + LONGEST_RETRY
        return displaced

    def _revive(self, plugin: _Plugin) -> None:
        if plugin.server.intact or not self._socket.parent.is_dir():
            return
        plugin.kubelet = None
        plugin.server.stop()
        plugin.server.start()

    @staticmethod
    def _unwatched(plugin: _Plugin, now: float) -> bool:
        """Tell whether the kubelet has not listened for a while, though it knows the plugin."""
        if plugin.server.streams:
            plugin.watched_at, plugin.unheard = now, 0
        return now - plugin.watched_at > UNWATCHED


def _tell(resource: str, before: tuple[Device, ...], now: tuple[Device, ...]) -> bool:
    """Log what is new. Returns whether devices came or went."""
    changed = {device.id for device in before} != {device.id for device in now}
    if changed:
        logs.info("devices", resource=resource, count=len(now))
    old = {device.uuid: device.problem for device in before}
    for uuid, problem in {device.uuid: device.problem for device in now}.items():
        if problem and problem != old.get(uuid):
            logs.warning("device is unhealthy", device=uuid, cause=problem.text)
        elif not problem and old.get(uuid):
            logs.info("device is healthy again", device=uuid)
    return changed
