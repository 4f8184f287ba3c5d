# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small HTTP server in one thread that waits for no client.

Whoever can reach the address may connect as often as he likes, say nothing and read nothing. So a
connection has one deadline for all that it does, an address has few connections and there are few
in all. Where one too many comes, the oldest makes room for it: a client that asks at once is
answered at once, whatever others do.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .http import LONGEST, Answers, Page, is_whole

SECONDS: Final = 4.0  # from the connection to the last byte of the answer
EACH: Final = 8  # connections of one address
ALL: Final = 64  # connections in all
BACKLOG: Final = 128
BREATH: Final = 0.1  # where the machine has no descriptors left


@dataclass(eq=False)
class _Client:
    connection: socket.socket
    address: str
    deadline: float
    request: bytes = b""
    answer: memoryview | None = None


class Endpoint:
    """Serves pages by their path. OSError: the address can't be had."""

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Page]) -> None:
        self._answers = Answers(pages)
        self._clients: list[_Client] = []  # the oldest first
        self._over = threading.Event()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.socket(family)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(address)
            self._listener.listen(BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self._ender, self._ended = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer until the end."""
        try:
            while self._turn():
                pass
        finally:
            for client in [*self._clients]:
                self._drop(client)
            self._selector.close()
            for one in (self._listener, self._ended):
                one.close()
            self._over.set()

    def end(self) -> None:
        """Stop answering; the address is free again."""
        self._ender.close()
        self._over.wait(SECONDS)

    def _turn(self) -> bool:
        """Do what can be done without waiting for anybody. Returns whether to go on."""
        first = self._clients[0].deadline - time.monotonic() if self._clients else None
        for key, _mask in self._selector.select(first):
            if key.fileobj is self._ended:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif key.data in self._clients:  # else it made room in this very turn
                self._serve(key.data)
        now = time.monotonic()
        for client in [one for one in self._clients if one.deadline <= now]:
            self._drop(client)
        return True

    def _accept(self) -> None:
        try:
            connection, whence = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            if self._clients:
                self._drop(self._clients[0])
            time.sleep(BREATH)
            return
        connection.setblocking(False)
        client = _Client(connection, whence[0], time.monotonic() + SECONDS)
        self._make_room(client.address)
        self._clients.append(client)
        self._selector.register(connection, selectors.EVENT_READ, client)
        self._serve(client)

    def _make_room(self, address: str) -> None:
        """Let the oldest connection go that is one too many."""
        counted = Counter(one.address for one in self._clients)
        if counted[address] < EACH:
            if len(self._clients) < ALL:
                return
            (address, _most), *_others = counted.most_common(1)
        self._drop(next(one for one in self._clients if one.address == address))

    def _serve(self, client: _Client) -> None:
        try:
            if client.answer is None:
                self._hear(client)
            if client.answer is not None:
                self._speak(client)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # it went away
            self._drop(client)

    def _hear(self, client: _Client) -> None:
        part = client.connection.recv(LONGEST - len(client.request))
        if not part:
            self._drop(client)
            return
        client.request += part
        if is_whole(client.request):
            client.answer = memoryview(self._answers.to(client.request))
            self._selector.modify(client.connection, selectors.EVENT_WRITE, client)

    def _speak(self, client: _Client) -> None:
        assert client.answer is not None
        client.answer = client.answer[client.connection.send(client.answer) :]
        if not client.answer:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.connection)
        with contextlib.suppress(OSError):
            client.connection.shutdown(socket.SHUT_WR)
        client.connection.close()
