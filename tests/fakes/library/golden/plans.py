# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Golden plans: what a function returns for scenes, kept as JSON with a line for each answer."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    return json.loads(json.dumps(value))


@functools.cache
def read_plans(path: Path) -> Any:
    """Return the kept plans."""
    return json.loads(path.read_text())


def write_plans(path: Path, plans: Any, levels: int) -> None:
    """Keep plans, with a line for each value at so many levels."""
    text = json.dumps(plans, indent=1)
    deep = re.compile(rf"\n {{{levels + 1},}}|\n {{{levels}}}(?=[\]}}])")
    path.write_text(f"{deep.sub(' ', text)}\n")
