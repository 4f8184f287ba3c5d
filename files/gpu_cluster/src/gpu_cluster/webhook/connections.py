# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The connections of a server: few, and if there is one too many, one that nobody needs is dropped.

Anybody who reaches the address may connect as often as he likes and send nothing, before, in or after the TLS
handshake. API servers keep theirs for the next review.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from . import limits

PAUSE: Final = 0.1  # until the next try if no descriptor is left


@dataclass(eq=False)
class _Connection:
    """A connection.

    Attributes:
        known: Whether it has asked for a review, as only API servers can.
        asking: Whether it waits for the answer.
    """

    protocol: Any
    address: str
    task: asyncio.Task[None]
    timer: asyncio.TimerHandle | None = None
    known: bool = False
    asking: bool = False

    @property
    def over(self) -> bool:
        return self.task.done() and self.protocol.transport is None

    def mark_known(self) -> None:
        """Mark the connection as an API server's."""
        self.known = True
        if self.timer is not None:
            self.timer.cancel()

    def drop(self) -> None:
        """End it, whatever its state."""
        self.mark_known()
        self.task.cancel()
        if self.protocol.transport is not None:
            self.protocol.transport.abort()


class Connections:
    """Takes connections at one address, for a server that makes a protocol for each."""

    def __init__(self, made: web.Server, context: Callable[[], ssl.SSLContext]) -> None:
        self._made, self._context = made, context
        self._open: dict[int, _Connection] = {}  # by protocol, the one last that asked last
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def listen(self, address: tuple[str, int]) -> None:
        """Accept connections from now on.

        Raises:
            OSError: if the address can't be bound.
        """
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        self._listener = socket.create_server(
            address, family=family, dualstack_ipv6=both, backlog=limits.MOST_CONNECTIONS
        )
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener))

    def stop(self) -> None:
        """Accept no more connections."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._listener is not None:
            self._listener.close()

    @contextlib.contextmanager
    def asking(self, protocol: Any) -> Iterator[None]:
        """Keep a connection while its review is under way, and prefer it to others afterwards."""
        connection = self._open.pop(id(protocol), None)
        if connection is None:  # it was dropped in this moment
            yield
            return
        self._open[id(protocol)] = connection
        connection.mark_known()
        connection.asking = True
        try:
            yield
        finally:
            connection.asking = False

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                channel, address = await loop.sock_accept(listener)
            except OSError:
                self._drop_one()
                await asyncio.sleep(PAUSE)
                continue
            if not self._make_room():
                channel.close()
                continue
            protocol = self._made()
            task = loop.create_task(self._shake_hands(channel, protocol))
            connection = _Connection(protocol, address[0], task)
            connection.timer = loop.call_later(2 * limits.FIRST, connection.drop)
            self._open[id(protocol)] = connection

    async def _shake_hands(self, channel: socket.socket, protocol: Any) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, channel, ssl=self._context(), ssl_handshake_timeout=limits.FIRST
            )

    def _make_room(self) -> bool:
        """Close a connection if that makes room for one more. Return whether there is room."""
        for number, connection in list(self._open.items()):
            if connection.over:
                self._open.pop(number).drop()
        return len(self._open) < limits.MOST_CONNECTIONS or self._drop_one()

    def _drop_one(self) -> bool:
        """Drop the connection that has asked nothing for the longest. Return whether there was one.

        API servers' come last, and of unknown ones it is one of the address that has most of them.
        """
        idle = [connection for connection in self._open.values() if not connection.asking]
        strangers = [connection for connection in idle if not connection.known]
        counted = Counter(stranger.address for stranger in strangers)
        most = max(counted, key=counted.__getitem__, default="")
        for stranger in [
            *(connection for connection in strangers if connection.address == most),
            *idle,
        ][:1]:
            self._open.pop(id(stranger.protocol)).drop()
        return bool(idle)
