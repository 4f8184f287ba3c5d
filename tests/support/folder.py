# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The one folder of a run of the tests: what they write is below it, and goes with it.

Its name has the process that made it, which has it locked as long as it lives: a later run removes what one left that
was killed, and nothing of one in another container. Its path is short, since those of sockets may have 107 characters.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PLACE = Path("/tmp")
PREFIX = "gnt-"


def begin() -> Path:
    """Make the folder the one for temporary files, of this process and of those that it starts."""
    for old in PLACE.glob(f"{PREFIX}*"):
        if not Path("/proc", old.name.split("-")[1]).exists() and _lock(old):
            remove(old)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=PLACE))
    _lock(folder)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is read anew
    return folder


def _lock(folder: Path) -> bool:
    """Lock a folder until this process ends; False where another one has it, or another user."""
    try:
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def given() -> Path | None:
    """Return the folder that the caller has made, if there is one."""
    path = Path(os.environ.get("TMPDIR", "/"))
    return path if path.parent == PLACE and path.name.startswith(PREFIX) else None


def remove(folder: Path) -> None:
    """Remove a folder, and what is mounted below it."""
    for place in sorted(_mounted(folder), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def _mounted(folder: Path) -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(f"{folder}/"):
            yield place
