# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node: holds dpkg's lock until apt has tried it again and again, then kills dpkg at work."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

LOCK, LOG = Path("/var/lib/dpkg/lock-frontend"), Path("/var/log/dpkg.log")
MODIFIED, OPENED = 0x2, 0x20  # of inotify
TRIES, UNPACKED = 3, 5


def happens(path: Path, what: int) -> Iterator[None]:
    """Yield at once, and each time that it has happened to a file."""
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init()
    assert libc.inotify_add_watch(watch, bytes(path), what) > 0
    yield
    while os.read(watch, 4096):
        yield


def processes(name: str) -> list[int]:
    """Return the processes of a program."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                found.append(int(path.parent.name))
    return found


def unpacked(start: int) -> int:
    """Return how many packages dpkg has unpacked since the log had a size."""
    return LOG.read_text()[start:].count(" status unpacked ")


def changing() -> bool:
    """Return whether an apt-get that changes packages runs."""
    for pid in processes("apt-get"):
        with contextlib.suppress(OSError):
            if b"-y" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return True
    return False


def kill_dpkg() -> bool:
    """Kill dpkg and tell whether there was one: apt starts it several times."""
    for pid in processes("dpkg"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def main() -> None:
    """Say each thing that was done."""
    LOG.touch()
    start = len(LOG.read_text())
    with LOCK.open("a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        print("locked", flush=True)
        tries = 0
        for _opened in happens(LOCK, OPENED):
            tries += changing()
            if tries == TRIES:
                break
        print(f"apt waits: {changing()}, unpacked: {unpacked(start)}", flush=True)
    for _written in happens(LOG, MODIFIED):
        if unpacked(start) >= UNPACKED and kill_dpkg():
            break
    print("killed dpkg", flush=True)


if __name__ == "__main__":
    main()
