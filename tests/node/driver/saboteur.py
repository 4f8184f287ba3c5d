# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node: holds dpkg's lock until apt has waited for it, then kills dpkg at work."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOCK, LOG = Path("/var/lib/dpkg/lock-frontend"), Path("/var/log/dpkg.log")
LIMIT = 120.0
WAIT_FOR_APT = 3.0
UNPACKED = 5


def processes(name: str) -> list[int]:
    """Return the processes of a program."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"never happened: {what}")
        time.sleep(0.002)


def unpacked(start: int) -> int:
    """Return how many packages dpkg has unpacked since the log had a size."""
    return LOG.read_text()[start:].count(" status unpacked ") if LOG.exists() else 0


def changing() -> bool:
    """Tell whether an apt-get that changes packages runs."""
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
    start = len(LOG.read_text()) if LOG.exists() else 0
    with LOCK.open("a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        print("locked", flush=True)
        wait_until(changing, "apt-get starts")
        time.sleep(WAIT_FOR_APT)
        print(f"apt waits: {changing()}, unpacked: {unpacked(start)}", flush=True)
    wait_until(lambda: unpacked(start) >= UNPACKED and kill_dpkg(), "dpkg unpacks")
    print("killed dpkg", flush=True)


if __name__ == "__main__":
    main()
