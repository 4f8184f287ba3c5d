# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HTTP to a service of the machine that listens at a Unix socket."""

from __future__ import annotations

import http.client
import socket
import struct
import typing as t

from .._base.knowledge import Absent, Knowledge, Known, Unknown
from .._base.text import json_data

LONGEST = json_data.LONGEST
CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): process, user, group


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


def listens(path: str, timeout: float) -> bool:
    """Return whether anybody listens at a path: a socket may be left of a service that has ended."""
    connection = _Connection(path, timeout)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def listener(path: str, timeout: float) -> Knowledge[int]:
    """Return the process that listens at a path, as the kernel tells it. Absent: nobody does."""
    connection = _Connection(path, timeout)
    try:
        connection.connect()
        credentials = connection.sock.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size
        )
    except (FileNotFoundError, ConnectionRefusedError):
        return Absent()
    except OSError as error:
        return Unknown(f"{path} can't be connected to: {error.strerror or error}")
    finally:
        connection.close()
    pid = int(CREDENTIALS.unpack(credentials)[0])
    return Known(pid) if pid else Unknown(f"who listens at {path} is in another PID namespace")


def get(path: str, target: str, timeout: float) -> t.Any:
    """Return the JSON that is answered to a GET request; None where there is no such answer within ``timeout`` s."""
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
