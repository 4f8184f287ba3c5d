# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files that hold the settings of managers: one a device, there while the device is shared.

Older releases wrote variables for systemd instead. Of those is read what it takes to find a manager
that has outlived its release, and to end it as it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .. import bounded
from .._shared._core.errors import NodeError
from .paths import ROOT, older_file, problem_of_root, settings_file
from .settings import ON_BUSY, WAIT, Settings, from_json

ENDINGS: Final = (settings_file("", "")[1:], older_file("", "")[1:])


def devices(folder: Path) -> set[str]:
    """Return the devices that have a file of either kind."""
    return {
        path.name.removesuffix(ending) for ending in ENDINGS for path in folder.glob(f"*-*{ending}")
    }


def load(path: Path) -> Settings:
    """Return the settings in a file. NodeError: they can't be had."""
    try:
        return from_json(bounded.read_text(path))
    except (NodeError, OSError, ValueError) as error:
        raise NodeError(
            f"the settings in {path} can't be used",
            cause=str(error),
            hint="the device plugin writes the file anew when it starts the manager",
        ) from error


def older(text: str) -> Settings:
    """Return of older settings where the manager's files are, and what is with its clients."""
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    variables = dict(line.split("=", 1) for line in lines)
    root, on_busy = (variables.get(f"GPU_MPS_{name}", "") for name in ("ROOT", "ON_BUSY"))
    return Settings(
        1,
        on_busy=on_busy if on_busy in ON_BUSY else WAIT,
        root=ROOT if problem_of_root(root) else root,
    )


def roots(folder: Path) -> list[Path]:
    """Return where managers have their files."""
    return sorted({Path(ROOT), *(Path(one) for one in _roots(folder))})


def _roots(folder: Path) -> Iterator[str]:
    for device in devices(folder):
        for file, read in ((settings_file, from_json), (older_file, older)):
            try:
                yield read(bounded.read_text(Path(file(device, str(folder))))).root
            except (NodeError, OSError, ValueError):
                continue
