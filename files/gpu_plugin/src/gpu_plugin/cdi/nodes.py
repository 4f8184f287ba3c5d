# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A list of the device nodes that there are, which gpu-cdi.path watches in their place.

A node itself can't be watched: systemd takes each end of a program that had it open for a change.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Final

from ..tools import files

NODES_FILE: Final = "nodes/list"
PATTERNS: Final = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/dri/by-path/*")


class NodesList:
    """Keeps the list in ``file``; ``host_root`` is where the host's / is seen."""

    def __init__(self, host_root: Path, file: Path) -> None:
        self._root = str(host_root).rstrip("/")
        self._file = file

    def refresh(self, dev_root: str) -> None:
        """Write the list if it is another than before. OSError."""
        below = self._root + dev_root.rstrip("/")
        found = [path for one in PATTERNS for path in glob.glob(glob.escape(below) + one)]
        text = "".join(f"{path[len(below) :]}\n" for path in sorted(found))
        files.keep(self._file, text)
