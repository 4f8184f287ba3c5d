# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where JSON becomes data: within limits, and with one kind of error for all that can't."""

from __future__ import annotations

import json
import typing as t

LONGEST = 1 << 20  # characters; the largest that we know of are CDI specifications, of some 200 KiB
DEEPEST = 64
NOT_UNDERSTOOD = "its answer was not understood"
# What is raised where data of another shape is read.
MISREAD = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


def loads(text: str) -> t.Any:
    """Return what a text holds. ValueError: it is no JSON, too long, or nested too deeply.

    What is left is safe to compare, to copy and to write again, each of which follows the nesting.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST >> 20} MiB")
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    for _level in levels(data):
        pass
    return data


def levels(data: t.Any) -> t.Iterator[t.List[t.Any]]:
    """Yield what stands at each depth of data, the outermost first. ValueError: it is nested too deeply."""
    level = [data]
    for _depth in range(DEEPEST + 1):
        yield level
        held = [value for value in level if isinstance(value, (dict, list))]
        if not held:
            return
        level = [
            item
            for value in held
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    raise ValueError(f"it is nested more than {DEEPEST} deep")


def table(value: object) -> t.Dict[str, t.Any]:
    """Return a mapping, an empty one for all else."""
    return value if isinstance(value, dict) else {}


def table_in(text: t.Optional[str]) -> t.Dict[str, t.Any]:
    """Return the mapping that a text holds, an empty one where it holds none."""
    try:
        return table(loads(text or "{}"))
    except ValueError:
        return {}


def rows(value: object) -> t.List[t.Any]:
    """Return a list, an empty one for all else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text, an empty one for all else."""
    return value if isinstance(value, str) else ""


def is_whole(value: object) -> t.TypeGuard[int]:
    """Return whether a value is a whole number, which Python says of true and false too."""
    return isinstance(value, int) and not isinstance(value, bool)
