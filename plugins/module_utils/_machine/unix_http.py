# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HTTP to a service of the machine that listens at a Unix socket."""

from __future__ import annotations

import http.client
import socket
import typing as t

from .._base.text import json_data

LONGEST = json_data.LONGEST


class _Connection(http.client.HTTPConnection):
    """A connection to a path of the file system."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get(path: str, target: str, timeout: float) -> t.Any:
    """Return the JSON that is answered to a GET request, None if there is none within ``timeout`` seconds."""
    connection = _Connection(path, timeout)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        text = answer.read(LONGEST + 1).decode("utf-8")
        return json_data.loads(text) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
