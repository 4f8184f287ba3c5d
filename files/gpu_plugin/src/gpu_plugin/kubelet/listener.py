# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A gRPC server on a socket that the kubelet knows by its path and others may take away, and the folder of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from .._shared._base.errors import NodeError

Identity = tuple[int, int, int]

_COUNT = itertools.count()


class SocketUnusable(NodeError):
    """The server can't listen on its socket."""


def identity(path: Path) -> Identity | None:
    """Return what distinguishes one socket from another of the same name, None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns)


class Listener:
    """A server, which gets its name once it listens. ``grace`` is how many seconds calls have to end."""

    def __init__(
        self,
        path: Path,
        handlers: Callable[[], Sequence[grpc.GenericRpcHandler[Any, Any]]],
        workers: int,
        grace: float,
    ) -> None:
        self.path = path
        self.identity: Identity | None = None
        self._handlers, self._workers, self._grace = handlers, workers, grace
        self._server: grpc.Server | None = None

    @property
    def intact(self) -> bool:
        """Whether the socket is still the one that this server listens on."""
        return self.identity is not None and identity(self.path) == self.identity

    def start(self) -> None:
        """Listen, in place of where it listened before.

        Raises:
            SocketUnusable: if the socket can't be listened on.
        """
        self.stop()
        pool = futures.ThreadPoolExecutor(self._workers, thread_name_prefix=self.path.name)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers(tuple(self._handlers()))
        # gRPC removes the path that it bound when it ends, whoever listens there by then. So each server
        # binds one that is nobody else's, which gets its name when it is ready: one that failed ends when
        # the next has begun. Kubelets leave dots alone.
        bound = self.path.with_name(f".{os.getpid()}-{next(_COUNT)}.sock")
        try:
            bound.unlink(missing_ok=True)
            server.add_insecure_port(f"unix://{bound}")
            server.start()
            bound.chmod(0o600)
            bound.replace(self.path)
        except (RuntimeError, OSError) as error:
            server.stop(0)
            raise SocketUnusable(
                f"can't listen on {self.path}",
                cause=str(error),
                hint="see that its folder exists, is writable and has a short path",
            ) from error
        self._server, self.identity = server, identity(self.path)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop(grace=self._grace).wait()
            self._server = None
        if self.intact:
            self.path.unlink(missing_ok=True)
        self.identity = None


class Folder:
    """A folder that was writable once, and may not be any more.

    Under systemd all but this folder is read-only. If a node leaves its cluster the folder is removed, and
    with it the mount: one that is made later is read-only for this process, and writable for the next.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_writable = False

    def lost(self) -> bool:
        """Return whether a new process could write where this one can't any more."""
        try:
            removed = self._path.stat().st_nlink == 0
            read_only = bool(os.statvfs(self._path).f_flag & os.ST_RDONLY)
        except OSError:
            return False  # there is none, and who makes it is waited for
        self._was_writable |= not (removed or read_only)
        return self._was_writable and (removed or read_only)
