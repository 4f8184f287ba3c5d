# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Room on file systems, and who listens on their sockets."""

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
        """Return a file's bytes, 0 where it is not there."""
        try:
            return os.stat(path).st_size
        except OSError:
            return 0

    def listener(self, path: str) -> t.Optional[int]:
        """Return the process that listens on a socket, 0 where it is not seen from here; None where nobody does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(ANSWER_SECONDS)
            try:
                channel.connect(path)
            except OSError:
                return None
            credentials = channel.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size
            )
        return int(CREDENTIALS.unpack(credentials)[0])
