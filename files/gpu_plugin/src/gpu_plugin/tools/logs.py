# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One line an event, on standard error: words for people, key=value for machines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

from .._shared._core.text.shown import printable


def info(event: str, **fields: object) -> None:
    """Tell what happened."""
    _write(6, "info", event, fields)


def warning(event: str, **fields: object) -> None:
    """Tell what is not as it should be, though the daemon goes on."""
    _write(4, "warning", event, fields)


def error(event: str, **fields: object) -> None:
    """Tell what failed."""
    _write(3, "error", event, fields)


def _write(priority: int, level: str, event: str, fields: dict[str, object]) -> None:
    words = [
        printable(event.replace("\n", " ")),
        *(f"{key}={_quoted(value)}" for key, value in fields.items()),
    ]
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    # The journal has its own time and takes the level so.
    start = f"<{priority}>" if os.environ.get("JOURNAL_STREAM") else f"{now} {level}: "
    with contextlib.suppress(OSError):  # nobody reads the log, which is no reason to end
        sys.stderr.write(f"{start}{' '.join(words)}\n")  # at once: other threads write too
        sys.stderr.flush()


def _quoted(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    plain = text and all(char.isalnum() or char in "-_./:,@" for char in text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
