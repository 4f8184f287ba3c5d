# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of the GPUs' health, in a file that the next process of the daemon reads.

A reboot is a reset of everything, so the file says of which boot it is. Times in it are those of the
monotonic clock, which all processes of a boot share.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import cut
from ..tools import logs
from ..tools.bounded import peek
from ..tools.state import VERSION, StateFile, read
from .health import Health

NAME: Final = "health.json"
BOOT_ID: Final = "proc/sys/kernel/random/boot_id"


class HealthFile:
    """``host_root`` is where the host's /proc is seen; where it is not, this machine's is as good."""

    def __init__(self, path: Path, host_root: Path) -> None:
        self._file = StateFile(path)
        self._boot = (peek(host_root / BOOT_ID) or peek(Path("/") / BOOT_ID)).strip()

    def read(self, health: Health, load: object, generation: object) -> None:
        """Let ``health`` know what is in the file, if that is still true.

        ``load`` distinguishes one load of the driver from another, ``generation`` is what ``health`` knows
        the present one by. A file that can't be used is left aside with a word.
        """
        try:
            data = read(self._file.path, (VERSION,))
            if data is None or data["boot"] != self._boot:
                return
            same = data["load"] == json.loads(json.dumps(load))
            health.recall(data["health"], generation if same else None)
        except (NodeError, ValueError, KeyError, TypeError) as error:
            logs.warning(
                "what was known of the GPUs' health is lost",
                file=self._file.path,
                cause=cut(f"{type(error).__name__}: {error}"),
            )

    def write(self, health: Health, load: object) -> None:
        """Keep what ``health`` knows. OSError: it can't be written, and the next call tries again."""
        self._file.write({"boot": self._boot, "load": load, "health": health.memory()})
