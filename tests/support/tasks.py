# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tasks of roles and playbooks, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml

from .paths import REPOSITORY

PARTS = ("block", "rescue", "always", "tasks")
Task = dict[str, Any]


def chosen(fits: Callable[[Task], object], *folders: str) -> Iterator[tuple[str, Task]]:
    """Yield what fits of plays and of tasks, also of those in blocks, each with the path of its file."""
    for path in sorted(one for folder in folders for one in REPOSITORY.glob(f"{folder}/*.yml")):
        for one in _every(yaml.safe_load(path.read_text())):
            if fits(one):
                yield str(path.relative_to(REPOSITORY)), one


def _every(tasks: Any) -> Iterator[Task]:
    for one in tasks if isinstance(tasks, list) else ():
        for part in PARTS:
            yield from _every(one.get(part))
        yield one
