# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tell systemd how the daemon is."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(*lines: str) -> None:
    """Send lines such as READY=1 to the service manager, if there is one that listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        with contextlib.suppress(OSError):  # a manager that is gone must not end the daemon
            channel.sendto("\n".join(lines).encode(), address)
