# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Notices that the configuration's file is another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

SETTLE: Final = 0.5
Stamp = tuple[int, int, int, int]


class ConfigWatch:
    """Watches one file, through links. A file that is gone changes nothing: it is being replaced."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._seen = self._stamp()
        self._coming: Stamp | None = None
        self._since = 0.0

    def changed(self) -> bool:
        """Tell, once for each change, that the file is another one and no longer being written."""
        now = self._stamp()
        if now is None or now == self._seen:
            self._coming = None
            return False
        if now != self._coming:
            self._coming, self._since = now, self._clock()
            return False
        if self._clock() - self._since < SETTLE:
            return False
        self._seen, self._coming = now, None
        return True

    def _stamp(self) -> Stamp | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
