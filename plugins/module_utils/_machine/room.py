# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Space on file systems, and the processes that listen on sockets."""

from __future__ import annotations

import os
import posixpath
import socket
import struct
import typing as t

from .._base.space import Space

CREDENTIALS = struct.Struct("3i")  # pid, uid and gid, see unix(7)
ANSWER_SECONDS = 1.0


class Room:
    """The room of the machine that this process runs on."""

    def space(self, folder: str) -> Space:
        """Return the space of the file system that a folder is in, or would be."""
        while not os.path.isdir(folder) and folder != "/":
            folder = posixpath.dirname(folder) or "/"
        status = os.statvfs(folder)
        read_only = bool(status.f_flag & os.ST_RDONLY)
        return Space(os.stat(folder).st_dev, status.f_bavail * status.f_frsize, read_only)

    def size(self, path: str) -> int:
        """Return a file's size in bytes, 0 if there is none."""
        try:
            return os.stat(path).st_size
        except OSError:
            return 0

    def listener(self, path: str) -> t.Optional[int]:
        """Return the process that listens on a socket, 0 in another PID namespace, None if there is none."""
        try:
            return listening_process(path, ANSWER_SECONDS)
        except OSError:
            return None


def listening_process(path: str, timeout: float) -> int:
    """Return the process that listens on a socket, as the kernel reports it; 0 if it is in another PID namespace.

    Raises:
        OSError: if no process can be connected to.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout)
        channel.connect(path)
        credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[0])
