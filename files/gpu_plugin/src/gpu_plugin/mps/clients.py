# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who a client of MPS is: its pod, and the limits that it gave itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._core import pods
from .._shared._core.text.printable import printable
from .._shared._core.text.shown import cut
from ..bounded import peek

PROC: Final = Path("/proc")
POD_LOGS: Final = Path("/var/log/pods")
MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
LONGEST_LIMIT: Final = 40


@dataclass(frozen=True)
class Client:
    """A process. ``memory`` and ``threads`` are what its environment says, empty: the defaults."""

    pid: int
    pod: str = ""
    memory: str = ""
    threads: str = ""

    def __str__(self) -> str:
        limits = [self.memory, self.threads and f"{self.threads}%"]
        words = " ".join(filter(None, [self.pod, *limits]))
        return f"{self.pid} ({words})" if words else str(self.pid)


def look(pid: int, proc: Path = PROC, logs: Path = POD_LOGS) -> Client:
    """Return a client, as far as its process lets itself be looked at."""
    folder = proc / str(pid)
    uid = pods.uid_of(peek(folder / "cgroup"), peek(proc / "1/cgroup"))
    pairs = (entry.split("=", 1) for entry in peek(folder / "environ").split("\0"))
    env = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    names = [path.name for path in logs.iterdir()] if uid and logs.is_dir() else []
    pod = pods.name_of(uid, names) if uid else ""
    memory, threads = env.get(MEMORY, "").partition("=")[2], env.get(THREADS, "")
    return Client(pid, pod, *(printable(cut(one, LONGEST_LIMIT)) for one in (memory, threads)))
