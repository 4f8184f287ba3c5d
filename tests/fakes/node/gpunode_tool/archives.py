# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages that nodes have fetched, for those that come later: each has links of its own, and so its own lock."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from .paths import CACHE, place

STORE = CACHE / "archives/all"


def lend(name: str) -> Path:
    """Return a node's folder for apt's archives, with all that earlier nodes have fetched."""
    folder = _folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _link(STORE, folder)
    return folder


def take_back(name: str, run: str = "") -> None:
    """Keep what a node of a run has fetched, the present one if none is named, and remove its folder."""
    folder = _folder(name, run)
    _link(folder, STORE)
    shutil.rmtree(folder, ignore_errors=True)


def _folder(name: str, run: str = "") -> Path:
    return place(run) / "archives" / name


def _link(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for package in source.glob("*.deb"):
        with contextlib.suppress(FileExistsError):
            (target / package.name).hardlink_to(package)
