# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in's HTTP: connections that go on after an answer, and answers in parts for watches."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.fakes.kubernetes.standin import requests
from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.authorizers import ADMIN
from tests.fakes.kubernetes.standin.watches import Watch

if TYPE_CHECKING:
    from tests.fakes.kubernetes.standin.api import StandIn

Json = dict[str, Any]
DROP = 0  # a fault that ends the connection without an answer
ORDERED = "by order of the test"


class Server(ThreadingHTTPServer):
    """A server for a stand-in."""

    daemon_threads = True
    request_queue_size = 128  # as long as Go's

    def __init__(self, api: StandIn, address: tuple[str, int]) -> None:
        super().__init__(address, type("Handler", (_Handler,), {"api": api}))
        if api.tls is not None:
            self.socket = api.tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    api: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as a genuine one

    def setup(self) -> None:
        super().setup()
        self.api.connections += 1
        if isinstance(self.connection, ssl.SSLSocket):
            subject: Any = (self.connection.getpeercert() or {}).get("subject", ())
            self.api.clients += [value for part in subject for _key, value in part]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        """Answer a request, whatever stands in its way."""
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size) if size else b""
        request = requests.read(self.command, self.path, dict(self.headers), text, ADMIN)
        name = "WATCH" if request.watching else request.method
        api = self.api
        seen = api.epoch, api.cuts  # of before anybody can know of the request
        api.requests.append(("DRY" if request.dry else name, request.path))
        api.before(name, request.path)
        api.keep(name, request.path)
        if api.faults and api.faults[0][0] == name:
            return self._fail(api.faults.popleft()[1])
        try:
            user = api.who(self.headers.get("Authorization", ""))
            request = requests.read(self.command, self.path, dict(self.headers), text, user)
            if request.watching:
                watch = Watch(api, request, api.asked(request), seen)
                self._follow(watch)
            else:
                self._send(*api.answer(request))
        except Refused as refused:
            self._refuse(refused)
        return None

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _fail(self, status: int) -> None:
        if status == DROP:
            self.close_connection = True
        else:
            self._refuse(Refused(status, ORDERED))

    def _refuse(self, refused: Refused) -> None:
        if refused.message == "404 page not found":
            self._write(404, "text/plain", b"404 page not found\n")
        else:
            self._send(refused.code, refused.body())

    def _follow(self, watch: Watch) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for event in watch.events():
            if event is None:
                return self._break()
            self._chunk(json.dumps(event).encode() + b"\n")
        self._chunk(b"")
        return None

    def _break(self) -> None:
        """End in the middle of an event."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self._chunk(b'{"type": "MODIFIED", "obj')
            self.connection.shutdown(socket.SHUT_RDWR)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, status: int, answer: Json) -> None:
        self._write(status, "application/json", json.dumps(answer).encode())

    def _write(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
