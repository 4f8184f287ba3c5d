# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Change files so that their times of modification stay, as ``cp -p``, ``rsync -a`` and a restored backup do."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.waiting import eventually


def rewrite_with_old_time(path: Path, text: str) -> None:
    """Write another text into a file, which keeps its inode and its time of modification."""
    before = path.stat()

    def write() -> bool:
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return path.stat().st_ctime_ns != before.st_ctime_ns  # the kernel's clock has ticked

    eventually(write)
