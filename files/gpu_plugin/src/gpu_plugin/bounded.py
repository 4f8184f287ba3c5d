# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that somebody else writes, read without waiting and up to a size."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

# A configuration has a limit of its own; what else is read is never this long.
LONGEST: Final = 1 << 20


class TooLong(OSError):
    """There is more in a file than anybody would write there."""


def read(path: Path, longest: int = LONGEST) -> bytes:
    """Return a file's bytes. OSError: it can't be read; TooLong: there are more than ``longest``.

    A pipe that nobody writes to is empty, and a device without an end too long.
    """
    with open(path, "rb", opener=_open) as stream:
        data: bytes = stream.read(longest + 1) or b""
    if len(data) > longest:
        raise TooLong(errno.EFBIG, f"it is longer than {longest >> 10} KiB", os.fspath(path))
    return data


def read_text(path: Path, longest: int = LONGEST) -> str:
    """Return a file's text. OSError as for read(); UnicodeDecodeError: it is not UTF-8."""
    return read(path, longest).decode("utf-8")


def _open(path: str, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK)
