# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The folder of the kubelet's sockets, which may be made anew behind a process's own mount of it."""

from __future__ import annotations

import os
from pathlib import Path


class Folder:
    """A folder that could be written once, and may not be any more.

    Under systemd all but this folder is read-only. Where a node leaves its cluster the folder is removed, and
    with it the mount: one that is made later is read-only for this process, and writable for the next.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_writable = False

    def lost(self) -> bool:
        """Tell whether a new process could write where this one can't any more."""
        try:
            removed = self._path.stat().st_nlink == 0
            read_only = bool(os.statvfs(self._path).f_flag & os.ST_RDONLY)
        except OSError:
            return False  # there is none, and who makes it is waited for
        self._was_writable |= not (removed or read_only)
        return self._was_writable and (removed or read_only)
