# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a process takes more and more: its private memory over blocks of the same work."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PRIVATE = re.compile(r"^Private_(?:Clean|Dirty): +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Held:
    """What a process has at a moment. Memory is in bytes, and its own alone."""

    descriptors: int
    threads: int
    memory: int


def held(pid: int) -> Held:
    """Return what a process has."""
    proc = Path(f"/proc/{pid}")
    private = sum(map(int, PRIVATE.findall((proc / "smaps_rollup").read_text())))
    threads = len(list((proc / "task").iterdir()))
    return Held(len(list((proc / "fd").iterdir())), threads, 1024 * private)


def slope(seen: Sequence[int]) -> float:
    """Return what a block adds: the mean over blocks without the one that adds most and the one that adds least.

    One step, as when an allocator takes another arena, is no growth.
    """
    added = sorted(late - soon for soon, late in itertools.pairwise(seen))
    return statistics.fmean(added[1:-1])


def watch(pid: int, work: Callable[[], object], *, blocks: int = 9, warm: int = 4) -> list[Held]:
    """Return what a process has after each of so many blocks of work.

    What is bounded, such as a cache, fills in the ``warm`` blocks before.
    """
    seen = []
    for _block in range(warm + blocks):
        work()
        seen.append(held(pid))
    return seen[warm:]


def check(seen: Sequence[Held], each: int, budget: float) -> float:
    """Check that a piece of work, of which a block has ``each``, leaves at most ``budget`` bytes.

    A few descriptors and threads may be in use at the moment. Returns the bytes.
    """
    assert min(one.descriptors for one in seen[-3:]) <= seen[0].descriptors + 2
    assert min(one.threads for one in seen[-3:]) <= seen[0].threads + 2
    left = slope([one.memory for one in seen]) / each
    assert left <= budget, f"{left:.0f} bytes a piece, {each} in a block: {seen}"
    return left
