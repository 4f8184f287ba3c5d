# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tell systemd how the daemon is."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

PATIENCE: Final = 2.0
CHATTER: Final = ("WATCHDOG=", "STATUS=")


def notify(*lines: str) -> None:
    """Send lines such as READY=1 to the service manager, if there is one that listens.

    One that is busy may miss what is said again anyway, and is waited for with all else.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError):  # a manager that is gone must not end the daemon
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(0 if all(line.startswith(CHATTER) for line in lines) else PATIENCE)
            channel.sendto("\n".join(lines).encode(), address)
