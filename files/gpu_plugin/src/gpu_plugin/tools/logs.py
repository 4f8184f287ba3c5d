# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The log: one line an event on standard error, for people and as key=value, and notifications of systemd."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import time
from typing import Final

from .._shared._base.text.shown import printable

PATIENCE: Final = 2.0
FEEDS: Final = 6  # of the watchdog, while it waits for one
CHATTER: Final = ("WATCHDOG=", "STATUS=")


def begin() -> None:
    """Write lines at once: what is buffered for a reader that is gone fails the process at its end."""
    # It may be no file, but an object of the caller's.
    with contextlib.suppress(io.UnsupportedOperation):
        raw = io.FileIO(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)


def info(event: str, **fields: object) -> None:
    """Log an event."""
    _write(6, "info", event, fields)


def warning(event: str, **fields: object) -> None:
    """Log a problem that the process goes on with."""
    _write(4, "warning", event, fields)


def error(event: str, **fields: object) -> None:
    """Log a failure."""
    _write(3, "error", event, fields)


def _write(priority: int, level: str, event: str, fields: dict[str, object]) -> None:
    fields_text = [
        printable(event.replace("\n", " ")),
        *(f"{key}={_quoted(value)}" for key, value in fields.items()),
    ]
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    # The journal has its own time and takes the level so.
    start = f"<{priority}>" if os.environ.get("JOURNAL_STREAM") else f"{timestamp} {level}: "
    with contextlib.suppress(OSError):  # nobody reads the log, which is no reason to end
        sys.stderr.write(f"{start}{' '.join(fields_text)}\n")  # at once: other threads write too
        sys.stderr.flush()


def _quoted(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    plain = text and all(char.isalnum() or char in "-_./:,@" for char in text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


def watchdog(most: float) -> float:
    """Return after how many seconds the watchdog has to be fed, at most ``most``.

    The service manager sets in WATCHDOG_USEC how long it waits (sd_watchdog_enabled(3)).
    """
    waits = os.environ.get("WATCHDOG_USEC", "")
    return min(most, int(waits) / 1e6 / FEEDS) if waits.isdecimal() else most


def notify(*lines: str) -> None:
    """Send lines such as READY=1 to the service manager, if there is one that listens.

    One that is busy may miss lines that are repeated anyway, and is waited for with all others.
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
