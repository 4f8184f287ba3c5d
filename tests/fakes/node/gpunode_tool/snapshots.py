# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are kept as they are, and started many times: a start is a boot of the same machine.

A snapshot belongs to a run, and its name is a digest of what made it, so that none is taken for another: the
collection, the image and what the node was given.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .image import digest
from .inside import container
from .nodes import LIMIT, board, boot
from .paths import REPOSITORY, place
from .podman import images, podman, tag

IMAGES = "localhost/gpunode-snapshot"
COLLECTION = ("files", "meta", "playbooks", "plugins", "roles")


def name_of(image: str, *given: Any) -> str:
    """Return the name of a snapshot of what this collection makes of an image with what it was given."""
    files = [
        path
        for folder in COLLECTION
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return digest(files, image, repr(given))


def exists(snapshot: str) -> bool:
    """Return whether this run has a snapshot."""
    return _image(snapshot) in images(tag())


def take(name: str, snapshot: str) -> None:
    """Shut a node down and keep its disk and its hardware."""
    podman("stop", "--time", str(int(LIMIT)), container(name))
    shutil.copytree(board(name), _board(snapshot), dirs_exist_ok=True)
    podman("commit", "--quiet", container(name), _image(snapshot))


def start(name: str, snapshot: str, volumes: Sequence[str] = ()) -> None:
    """Boot a node from a snapshot."""
    shutil.rmtree(board(name), ignore_errors=True)
    shutil.copytree(_board(snapshot), board(name))
    boot(name, _image(snapshot), volumes)


def _image(snapshot: str) -> str:
    return f"{IMAGES}:{tag()}{snapshot}"


def _board(snapshot: str) -> Path:
    return place() / "snapshots" / snapshot
