# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether root alone decides what is below a folder: links, states and process ids are trusted there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from .._shared._core.errors import NodeError

OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def problem_of(root: Path) -> str:
    """Return why files can't be kept below a root; empty: only root can change what is there."""
    return next(filter(None, map(_problem, (root, *root.parents))), "")


def refusal(root: str) -> str:
    """Return problem_of() as a sentence, for those who raise nothing."""
    problem = problem_of(Path(root))
    return f"MPS can't have its files in {root}: {problem}" if problem else ""


def require(root: Path) -> None:
    """NodeError: others than root could change what is below a root, or put theirs there."""
    if problem := problem_of(root):
        raise NodeError(
            f"MPS can't have its files in {root}",
            cause=problem,
            hint="choose a mpsRoot that root alone may write, such as /run/gpu-node/mps",
        )


def _problem(path: Path) -> str:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""  # it is made by root, then
    except OSError as error:
        return f"{path}: {error.strerror}"
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {found.st_uid}"
    if stat.S_ISLNK(found.st_mode):
        return problem_of(path.resolve())
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is not a folder"
    if found.st_mode & (stat.S_IWOTH if found.st_gid == 0 else OTHERS_WRITE):
        return f"others may write in {path} (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
