# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that everybody may read, replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

Stamp = tuple[int, int, int, int]


def stamp(path: str | Path) -> Stamp | None:
    """Return what differs after each change of a file, None where none can be seen."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def replace(path: Path, text: str, mode: int = 0o644, *, durable: bool = False) -> None:
    """Write a file, and the folder that it is in, 0755. OSError leaves the old file.

    No link in the way is followed. ``durable``: after a loss of power there is one of the two files.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o755)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # of a process that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def keep(path: Path, text: str) -> None:
    """Replace a file if there is anything else in it. OSError leaves the old file."""
    try:
        same = path.read_text(encoding="utf-8", errors="replace") == text
    except OSError:
        same = False
    if not same:
        replace(path, text)
