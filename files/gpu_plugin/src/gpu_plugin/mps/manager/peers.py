# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has to do with a control daemon: those connected to it, and the servers that it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..._shared._core.text.printable import printable
from ...bounded import peek
from ...state import started, stat_fields
from .. import clients

PIDFD_GETFD: Final = 438  # pidfd_getfd(2) has this number on every architecture
CREDENTIALS: Final = struct.Struct("3i")
MOST: Final = 5
PROC: Final = Path("/proc")


def holders(daemon: int) -> str:
    """Return in words which processes are connected to a control daemon, empty where none is.

    It serves one at a time, so the one who says nothing is among them. SO_PEERCRED of the daemon's
    own sockets names them, whatever namespace they are in (unix(7), pidfd_getfd(2)).
    """
    found = dict(_peers(daemon))
    told = [_describe(pid, uid) for pid, uid in list(found.items())[:MOST]]
    more = [f"{len(found) - MOST} more"] if len(found) > MOST else []
    return ", ".join([*told, *more])


def servers(daemon: int) -> tuple[int, ...]:
    """Return the processes that a control daemon started. Clients have a server; without, none is."""
    found = []
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            fields = stat_fields(int(folder.name))
            if fields and str(daemon) in fields[1:3]:  # its parent, or the leader of its group
                found.append(int(folder.name))
    return tuple(pid for pid in found if pid != daemon)


def _describe(pid: int, uid: int) -> str:
    name = printable(peek(PROC / str(pid) / "comm").rstrip("\n")) or "unknown"
    pod = clients.look(pid).pod
    return f"process {pid} ({name} of user {uid}{f', pod {pod}' if pod else ''})"


def _peers(daemon: int) -> Iterator[tuple[int, int]]:
    """Return process and user of each living process at the other end of a daemon's sockets."""
    with contextlib.suppress(OSError), open(os.pidfd_open(daemon), "rb", 0) as process:
        for entry in (PROC / str(daemon) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(entry).startswith("socket:"):
                    with _duplicate(process.fileno(), int(entry.name)) as one:
                        pid, uid, _gid = _credentials(one)
                        if pid not in (0, daemon, os.getpid()) and started(pid):
                            yield pid, uid


def _duplicate(process: int, descriptor: int) -> socket.socket:
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    if found < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=found)


def _credentials(one: socket.socket) -> tuple[int, int, int]:
    """Return process, user and group of the other end. OSError: it has none."""
    one.getpeername()
    raw = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, gid = CREDENTIALS.unpack(raw)
    return pid, uid, gid
