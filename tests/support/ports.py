# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ports that are nobody else's, also while their server starts or is away for a while."""

from __future__ import annotations

import socket
import weakref


def reserve(owner: object, host: str = "127.0.0.1") -> int:
    """Return a TCP port that the kernel gives to no other socket as long as the owner is there.

    Servers that set SO_REUSEADDR, as all of ours and of Go do, can listen on it. Nobody does before: a connection
    is refused.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, 0))
    weakref.finalize(owner, kept.close)
    return int(kept.getsockname()[1])
