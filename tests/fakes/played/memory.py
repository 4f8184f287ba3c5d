# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Folders in memory, since dpkg and rpm wait for the disk after each package, and copies of what was made in them once.

They go with the run of the tests, however that ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.support.folder import elsewhere

MEMORY = "/dev/shm"
T = TypeVar("T")


@functools.lru_cache
def _base() -> Path:
    """Return this process' folder."""
    usable = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return elsewhere(MEMORY if usable else tempfile.gettempdir(), "gpu-node-")


@functools.lru_cache
def shared(name: str) -> Path:
    """Return a folder that all tests of this process share."""
    path = _base() / name
    path.mkdir()
    return path


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """Yield an empty folder, which has the same path for each test: what was made in it once can be copied back."""
    path = shared("places") / "place"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


_kept: dict[Hashable, Path] = {}


def once(key: Hashable, place: Path, make: Callable[[], object]) -> None:
    """Make what is to be in the place, or copy what was made there before by the same key."""
    if key not in _kept:
        make()
        _kept[key] = shared("kept") / str(len(_kept))
        shutil.copytree(place, _kept[key], symlinks=True)
    else:
        shutil.rmtree(place)
        shutil.copytree(_kept[key], place, symlinks=True)
