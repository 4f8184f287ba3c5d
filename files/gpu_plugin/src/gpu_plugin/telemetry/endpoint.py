# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small HTTP server. One thread answers one request after the other, each in a bounded time."""

from __future__ import annotations

import io
import socket
import socketserver
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

SECONDS: Final = 2.0  # for a request to arrive, and again for the answer to leave
LONGEST: Final = 8192  # bytes of a request
# Returns the status, the content type and the content.
Page = Callable[[], tuple[HTTPStatus, str, bytes]]


class Endpoint(socketserver.TCPServer):
    """Serves pages by their path. OSError: the address can't be had."""

    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Page]) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def serve(self) -> None:
        """Answer until the end, without looking again and again whether it has come."""
        self.serve_forever(poll_interval=None)  # type: ignore[arg-type]  # select's for no end

    def end(self) -> None:
        """Stop answering; the address is free again."""
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, so that it sees what follows
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away or sent rubbish is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    server_version = "gpu-plugin"
    sys_version = ""

    def setup(self) -> None:
        """Take the request's head as a whole, so that no client holds the thread by its drops."""
        super().setup()
        head = b""
        deadline = time.monotonic() + SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < LONGEST:
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self.connection.recv(LONGEST - len(head))
            if not part:
                break
            head += part
        self.connection.settimeout(SECONDS)
        self.rfile = io.BufferedReader(io.BytesIO(head))

    def do_GET(self) -> None:
        """Answer."""
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            status, kind, content = HTTPStatus.NOT_FOUND, "text/plain", b"not found\n"
        else:
            status, kind, content = page()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_words: object) -> None:
        """Say nothing: each scrape would be a line."""
