# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps one plugin a resource running and registered."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from ..observer import REGISTRATIONS
from ..tools import logs
from ..tools.chores import Backoff
from .client import register
from .listener import Folder, Identity, identity
from .server import Published, ResourceServer

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
        self.error = ""  # why it is not registered, though there is a kubelet


class Manager:
    """The plugins of a node. Everything but the answers to the kubelet happens in tick."""

    def __init__(
        self,
        kubelet_socket: Path,
        published: Published,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket, self._clock = kubelet_socket, clock
        self._published, self._observer = published, published.observer
        self._plugins: dict[str, _Plugin] = {}
        self.folder = Folder(kubelet_socket.parent)

    def tick(self) -> None:
        """Serve what is published and nothing else; bring back lost sockets and registrations."""
        published = self._published.names
        for name in [name for name in self._plugins if name not in published]:
            logs.info("resource is gone", resource=name)
            self._plugins.pop(name).server.stop()
        for name in published:
            if name not in self._plugins:
                server = ResourceServer(name, self._socket.parent, self._published)
                self._plugins[name] = _Plugin(server)
        kubelet = identity(self._socket)
        moment = self._clock()
        for plugin in self._plugins.values():
            if moment < plugin.retry_at:
                continue
            try:
                if self._gave_way(plugin, moment):
                    continue
                if not plugin.server.intact and self._socket.parent.is_dir():
                    plugin.kubelet = None
                    plugin.server.start()
                if kubelet is None:
                    plugin.kubelet = None
                elif plugin.kubelet != kubelet or self._unwatched(plugin, moment):
                    self._register(plugin, kubelet, moment)
                plugin.backoff.reset()
                plugin.error = ""
            except (NodeError, OSError) as error:
                plugin.kubelet, plugin.error = None, str(error)
                name = plugin.server.resource
                self._observer.count(REGISTRATIONS, name, "failed")
                if not plugin.backoff.failures:
                    logs.warning("not registered, trying again", resource=name, cause=error)
                plugin.retry_at = moment + plugin.backoff.failed()
                return  # what fails for one is slow to fail for all

    def registered(self) -> dict[str, bool]:
        """Return for each resource whether it is registered with the kubelet."""
        return {name: plugin.kubelet is not None for name, plugin in self._plugins.items()}

    def problem(self) -> str | None:
        """Return why a resource can't be registered, None if nothing is known to stand in the way."""
        return next((plugin.error for plugin in self._plugins.values() if plugin.error), None)

    def stop(self) -> None:
        """Stop all plugins and remove their sockets."""
        for plugin in self._plugins.values():
            plugin.server.stop()
        self._plugins.clear()

    def _register(self, plugin: _Plugin, kubelet: Identity, moment: float) -> None:
        """Register a plugin with the kubelet. One that it never listens to gets a new server first."""
        name = plugin.server.resource
        if plugin.unheard >= DEAF:
            logs.warning("the kubelet does not connect, restarting the server", resource=name)
            plugin.server.start()
            plugin.unheard = 0
        register(self._socket, plugin.server.socket.name, name)
        logs.info("registered", resource=name)
        self._observer.count(REGISTRATIONS, name, "accepted")
        plugin.kubelet, plugin.watched_at = kubelet, moment
        plugin.unheard += 1

    @staticmethod
    def _gave_way(plugin: _Plugin, moment: float) -> bool:
        """Return whether another process serves the resource in this one's place.

        The kubelet calls the process that registered last, and two that each register again would never end.
        """
        displaced = plugin.server.displaced
        if displaced and not plugin.displaced:
            plugin.error = "another plugin serves this resource"
            logs.error(
                f"{plugin.error}, waiting for it to end",
                resource=plugin.server.resource,
                socket=plugin.server.socket,
            )
        plugin.displaced = displaced
        if displaced:
            plugin.kubelet, plugin.retry_at = None, moment + LONGEST_RETRY
        return displaced

    @staticmethod
    def _unwatched(plugin: _Plugin, moment: float) -> bool:
        """Return whether the kubelet, though it knows the plugin, has not listened for a while, or may not."""
        if plugin.server.streams:
            plugin.watched_at, plugin.unheard = moment, 0
        return plugin.server.made_room() or moment - plugin.watched_at > UNWATCHED
