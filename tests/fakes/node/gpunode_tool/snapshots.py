# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are kept as they are, and started many times: a start is a boot of the same machine.

A snapshot's name says what made it, so that none is taken for another: its run, and a digest of the
collection, the image and what the node was given.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .image import digest
from .nodes import PREFIX, board, boot
from .paths import CACHE, CHECKOUT, REPOSITORY
from .podman import podman

IMAGES = f"localhost/gpunode-snapshot-{CHECKOUT}"
COLLECTION = ("files", "meta", "playbooks", "plugins", "roles")


def name_of(run: str, image: str, *given: Any) -> str:
    """Return the name of a run's snapshot of what this collection makes of an image with what it was given."""
    files = [
        path
        for folder in COLLECTION
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return f"{run}-{digest(files, image, repr(given))}"


def exists(snapshot: str) -> bool:
    """Tell whether a snapshot is there."""
    return snapshot in _names()


def take(name: str, snapshot: str) -> None:
    """Shut a node down and keep its disk and its hardware."""
    podman("stop", "--time", "30", PREFIX + name)
    shutil.copytree(board(name), _board(snapshot), dirs_exist_ok=True)
    podman("commit", "--quiet", PREFIX + name, f"{IMAGES}:{snapshot}")


def start(name: str, snapshot: str, volumes: Sequence[str] = ()) -> None:
    """Boot a node from a snapshot."""
    shutil.rmtree(board(name), ignore_errors=True)
    shutil.copytree(_board(snapshot), board(name))
    boot(name, f"{IMAGES}:{snapshot}", volumes)


def forget(run: str = "") -> None:
    """Remove the snapshots of a run, or all."""
    for snapshot in _names():
        if not run or snapshot.startswith(f"{run}-"):
            podman("rmi", f"{IMAGES}:{snapshot}", check=False)
            shutil.rmtree(_board(snapshot), ignore_errors=True)


def _names() -> list[str]:
    return podman("images", "--format", "{{.Tag}}", IMAGES).split()


def _board(snapshot: str) -> Path:
    return CACHE / "snapshots" / snapshot
