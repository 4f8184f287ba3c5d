# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small HTTP server in one thread that waits for no client.

Whoever can reach the address may connect as often as he likes, say nothing and read nothing. So a
connection has one deadline for all that it does, an address has few connections and there are few
in all. Where one too many comes, the oldest makes room for it: a client that asks at once is
answered at once, whatever others do.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from ..tools import logs

LONGEST: Final = 8192  # bytes of a request, all its headers among them
TEXT: Final = "text/plain; charset=utf-8"
# Returns the status, the content type and the content.
Page = Callable[[], tuple[HTTPStatus, str, bytes]]
SECONDS: Final = 4.0  # from the connection to the last byte of the answer
EACH: Final = 8  # connections of one address
ALL: Final = 64  # connections in all


class Endpoint:
    """Serves pages by their path.

    Raises:
        OSError: if the address can't be bound.
    """

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._failed: dict[str, str] = {}  # why pages could not be made
        self._clients: dict[asyncio.Task[Any], str] = {}  # their addresses, the oldest first
        self._over = threading.Event()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        self._listener = socket.create_server(address, family=family, dualstack_ipv6=both)
        self._ended = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_error)

    def serve(self) -> None:
        """Answer until the end."""
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._over.set()

    def end(self) -> None:
        """Stop answering; the address is free again."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._over.wait(SECONDS)

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._talk, sock=self._listener, limit=LONGEST, backlog=128
        )
        await self._ended.wait()
        server.close()
        clients = asyncio.all_tasks() - {asyncio.current_task()}
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client. It is cancelled when its time is over, or to make room for another."""
        client = asyncio.current_task()
        assert client is not None
        address = writer.get_extra_info("peername")[0]
        self._make_room(address)
        self._clients[client] = address
        deadline = self._loop.call_later(SECONDS, client.cancel)
        closed = False
        try:
            if request := await _request(reader):
                writer.write(self._answer(request))
                writer.close()
                await writer.wait_closed()
                closed = True
        except (OSError, asyncio.CancelledError):
            pass  # it went away, or has to
        finally:
            deadline.cancel()
            self._clients.pop(client, None)
            if not closed:  # one that has sent all can't be ended once more
                writer.transport.abort()

    def _answer(self, request: bytes) -> bytes:
        """Return the answer to a whole request. It ends the connection."""
        request_line = request.partition(b"\n")[0].decode("latin-1").split()
        if len(request) >= LONGEST:
            return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if len(request_line) != 3 or not request_line[2].startswith("HTTP/1."):
            return _refusal(HTTPStatus.BAD_REQUEST)
        if request_line[0] not in ("GET", "HEAD"):
            return _refusal(HTTPStatus.NOT_IMPLEMENTED)
        path = request_line[1].partition("?")[0]
        if path not in self._pages:
            return _refusal(HTTPStatus.NOT_FOUND)
        try:
            shown = self._pages[path]()
        except Exception as error:  # one page that fails takes no other with it
            if self._failed.get(path) != repr(
                error
            ):  # clients that ask again must not fill the log
                logs.error("a page could not be made", page=path, cause=repr(error))
            self._failed[path] = repr(error)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._failed.pop(path, None)
        return _bytes(*shown, with_content=request_line[0] == "GET")

    def _make_room(self, address: str) -> None:
        """Drop the oldest connection that is one too many."""
        counted = Counter(self._clients.values())
        if counted[address] < EACH:
            if len(self._clients) < ALL:
                return
            (address, _most), *_lower = counted.most_common(1)
        self._drop_oldest(address)

    def _drop_oldest(self, address: str = "") -> None:
        """Drop the oldest connection, of an address if one is given."""
        for client, whose in self._clients.items():
            if not address or whose == address:
                del self._clients[client]
                client.cancel()
                return

    def _on_error(self, _loop: object, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):  # no descriptor is left for one more connection
            self._drop_oldest()
        else:
            logs.error(context["message"], cause=repr(error))


async def _request(reader: asyncio.StreamReader) -> bytes:
    """Return a request with all its headers, or too many; nothing if the client goes away before."""
    request = b""
    while b"\r\n\r\n" not in request and b"\n\n" not in request and len(request) < LONGEST:
        part = await reader.read(LONGEST - len(request))
        if not part:
            return b""
        request += part
    return request


def probe_page(problem: str) -> tuple[HTTPStatus, str, bytes]:
    """Return the page of a probe: ok, or the problem."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return status, TEXT, f"{problem or 'ok'}\n".encode()


def _refusal(status: HTTPStatus) -> bytes:
    return _bytes(status, TEXT, f"{status.phrase.lower()}\n".encode(), with_content=True)


def _bytes(status: HTTPStatus, kind: str, content: bytes, *, with_content: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\n"
        f"Content-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (content if with_content else b"")
