# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A lock by which one device plugin at a time serves a node, be it the host's service or a pod."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from .._shared._device_plugin import instance_lock
from . import logs

PATIENCE: Final = 3.0  # seconds for one that is about to end
LOOK: Final = 0.2


@contextlib.contextmanager
def hold(folder: Path, environment: Mapping[str, str], seconds: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a node's folder.

    The environment shows a pod, as each kubelet sets the API server's address in it, and systemd's service.
    If there can be no such file, as on a full disk, there is no lock: to serve counts for more.

    Raises:
        NodeError: if another device plugin holds it for so many seconds.
    """
    path, pod = folder / instance_lock.FILE, "KUBERNETES_SERVICE_HOST" in environment
    service = "INVOCATION_ID" in environment
    holder = instance_lock.holder(
        socket.gethostname(), pod=pod, service=service, process=os.getpid()
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        logs.warning("no other device plugin can be kept off this node", cause=str(error))
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o600)  # who can open it can lock it
        _take(descriptor, seconds, pod=pod)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, seconds: float, *, pod: bool) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                text = os.pread(descriptor, 256, 0).decode(errors="replace")
                raise instance_lock.refusal(text, pod=pod) from None
            time.sleep(LOOK)
