# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run gpu-plugin, and kill it at its Nth change of the node: ``python killed_at.py N ARMED WORDS...``.

Changes are files that get or lose their names, and the calls that make and destroy MIG instances, before and
after each. They are counted once the file ARMED is there.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
)
NAMES = ("checkpoint.json", "gpu.node-claim")


class Killer:
    """Counts changes."""

    def __init__(self, at: int, armed: str) -> None:
        self.left, self.armed = at, armed

    def change(self) -> None:
        if os.path.exists(self.armed):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what is about to get or lose its name."""
        if event in ("os.rename", "os.remove"):
            path = Path(os.fsdecode(arguments[1 if event == "os.rename" else 0]))
            if path.name.startswith(NAMES):
                self.change()

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Count a call before and after it is made."""

        @functools.wraps(call)
        def around(*arguments: Any) -> Any:
            self.change()
            answer = call(*arguments)
            self.change()
            return answer

        return around


def main(at: str, armed: str, *words: str) -> int:
    import pynvml

    killer = Killer(int(at), armed)
    for name in CALLS:
        setattr(pynvml, name, killer.wrapped(getattr(pynvml, name)))
    sys.addaudithook(killer.hook)
    from gpu_plugin.cli import main as run

    return run(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
