# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""JSON as data, within limits, and with one kind of error."""

from __future__ import annotations

import json
import typing as t

LONGEST = 1 << 20  # characters; the largest that we know of are CDI specifications, of some 200 KiB
DEEPEST = 64
NOT_UNDERSTOOD = "its answer was not understood"
# The errors of reading data of another shape.
MISREAD = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


def loads(text: str) -> t.Any:
    """Return the data of a JSON text, which is safe to compare, to copy and to write recursively.

    Raises:
        ValueError: if it is no JSON, too long, or nested too deeply.
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
    """Yield the values at each depth of data, the outermost first.

    Raises:
        ValueError: if it is nested too deeply.
    """
    level = [data]
    for _depth in range(DEEPEST + 1):
        yield level
        collections = [value for value in level if isinstance(value, (dict, list))]
        if not collections:
            return
        level = []
        for value in collections:
            level += value.values() if isinstance(value, dict) else value
    raise ValueError(f"it is nested more than {DEEPEST} deep")


def table(value: object) -> t.Dict[str, t.Any]:
    """Return a mapping as it is, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def table_in(text: t.Optional[str]) -> t.Dict[str, t.Any]:
    """Return the mapping in a JSON text, an empty one if there is none."""
    try:
        return table(loads(text or "{}"))
    except ValueError:
        return {}


def rows(value: object) -> t.List[t.Any]:
    """Return a list as it is, an empty one for any other value."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text as it is, an empty one for any other value."""
    return value if isinstance(value, str) else ""


def is_whole(value: object) -> t.TypeGuard[int]:
    """Return whether a value is a whole number; true and false, which are numbers in Python, are not."""
    return isinstance(value, int) and not isinstance(value, bool)
