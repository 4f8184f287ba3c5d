# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A gRPC client that costs next to nothing, so that a measurement is of the server.

It speaks just enough HTTP/2 for one unary call after the other on a Unix socket.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
PLENTY: Final = 2**30


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _header(name: bytes, value: bytes) -> bytes:
    """A literal header that no table remembers; names and values are shorter than 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Wire:
    """A connection. Calls must follow each other."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(5)
        self._socket.connect(str(path))
        self._stream = -1
        self._rest = b""
        settings = struct.pack(">HI", 4, PLENTY)  # the window that each answer starts with
        self._socket.sendall(
            PREFACE
            + _frame(SETTINGS, 0, 0, settings)
            + _frame(WINDOW, 0, 0, struct.pack(">I", PLENTY))
        )

    def call(self, method: str, request: bytes) -> bytes:
        """Return the answer's bytes. ValueError: the server refused the call."""
        self._stream += 2
        head = b"".join(
            _header(name, value)
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", method.encode()),
                (b":authority", b"localhost"),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            )
        )
        message = struct.pack(">BI", 0, len(request)) + request
        self._socket.sendall(
            _frame(HEADERS, END_HEADERS, self._stream, head)
            + b"".join(
                _frame(DATA, 0, self._stream, message[at : at + 16384])
                for at in range(0, len(message), 16384)
            )
            + _frame(DATA, END_STREAM, self._stream)
        )
        answer = b""
        while True:
            kind, flags, stream, payload = self._next()
            if kind == SETTINGS and not flags & ACK:
                self._socket.sendall(_frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self._socket.sendall(_frame(PING, ACK, 0, payload))
            elif kind in (RESET, GOAWAY):
                raise ValueError(f"the server ended the call: {payload!r}")
            elif stream == self._stream and kind == DATA:
                answer += payload
            if stream == self._stream and flags & END_STREAM and kind in (DATA, HEADERS):
                if not answer:
                    raise ValueError("the server refused the call")
                return answer[5:]

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _next(self) -> tuple[int, int, int, bytes]:
        head = self._take(9)
        length = int.from_bytes(head[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream & 0x7FFFFFFF, self._take(length)

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            part = self._socket.recv(65536)
            if not part:
                raise ConnectionError("the server closed the connection")
            self._rest += part
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
