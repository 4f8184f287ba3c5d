# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run a command, and leave nothing of it behind: no process, no file in the temporary folder, no mount.

Linux gives orphans to the nearest ancestor that asks for them (PR_SET_CHILD_SUBREAPER), so that what a test
started is found whatever it did to hide, also where the tests were killed. Where this is killed, the next run ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import folder, helper_process

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return the status of a command, and the processes that it left behind, which are ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    place = folder.begin()
    child = helper_process.start(
        command,
        env={**environment, "TMPDIR": str(place)},
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        ready=helper_process.executed,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: child.send_signal(signal.SIGKILL))
    try:
        return child.wait(None), left()
    finally:
        end()
        folder.remove(place)


def children() -> list[int]:
    """Return the processes that this one is the parent of now."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(one) for one in text.split()]


def left() -> list[str]:
    """Return the command lines of what runs still."""
    found = []
    for pid in children():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if line := b" ".join(words).decode(errors="replace").strip():
                found.append(line[:200])
    return found


def end() -> None:
    """End all that is left, and what comes to light when its parents have ended."""
    while some := children():
        for pid in some:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in some:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


if __name__ == "__main__":
    status, found = run(sys.argv[1:], os.environ)
    for line in found:
        print(f"left behind: {line}", file=sys.stderr)
    sys.exit(status or (1 if found else 0))
