# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a pure test may not do: start a process, use the network, sleep, or write outside of its own folder.

The interpreter tells of them by its audit events (PEP 578), whoever asks for them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

PROCESSES = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "subprocess.Popen",
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SLEEP = time.sleep
_watching = False


class ImpureError(Exception):
    """A pure test did what only tests of other tiers may do."""


def watch(on: bool) -> None:
    """Refuse from now on, or no longer."""
    global _watching
    tempfile.gettempdir()  # which tries the folder by a file, and within an audit would wait for itself
    _watching = on
    time.sleep = _refused if on else SLEEP  # which tells of itself from Python 3.13 on


def _refused(seconds: float) -> None:
    raise ImpureError(f"a pure test sleeps for {seconds} seconds")


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in PROCESSES:
        raise ImpureError(f"a pure test starts a process: {event} {arguments!r:.200}")
    if event in ("socket.connect", "socket.bind") and not isinstance(arguments[1], str | bytes):
        raise ImpureError(f"a pure test uses the network: {event} {arguments[1]!r}")
    if event == "open" and _written_elsewhere(*arguments):
        raise ImpureError(f"a pure test writes to {arguments[0]!r}, outside of its folder")


def _written_elsewhere(path: Any, _mode: Any, flags: Any) -> bool:
    if not isinstance(path, str | bytes) or not (isinstance(flags, int) and flags & WRITES):
        return False
    name = os.path.abspath(os.fsdecode(path))
    if (
        "/__pycache__/" in name
    ):  # what the interpreter keeps of a module that is imported first here
        return False
    return not name.startswith((tempfile.gettempdir(), "/dev/null", "/proc/self/fd/"))


sys.addaudithook(_audit)
