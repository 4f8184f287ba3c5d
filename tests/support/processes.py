# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a process does, as /proc tells."""

from __future__ import annotations

import os
from pathlib import Path


def spent(pid: int) -> float:
    """Return how many seconds of the processor a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rests(pid: int) -> int:
    """Return how often a process' first thread has given the processor away, as between two tries."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_"))


def opened(pid: int, path: Path) -> bool:
    """Tell whether a process has a file open."""
    return any(one.resolve() == path.resolve() for one in Path(f"/proc/{pid}/fd").iterdir())


def runs(pid: int | str) -> bool:
    """Tell whether a process runs: one that has ended and that its parent has not asked for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
