# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where JSON becomes data: within limits, and with one kind of error for all that can't."""

from __future__ import annotations

import json
import typing as t

LONGEST = 1 << 20  # characters; the largest that we know of are CDI specifications, of some 200 KiB
DEEPEST = 64


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
    if _depth(data) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return data


def _depth(data: t.Any) -> int:
    """Return how deeply lists and objects are nested, or a depth that is too much already."""
    depth, level = 0, [data]
    while level and depth <= DEEPEST:
        held = [one.values() if isinstance(one, dict) else one for one in level if _holds(one)]
        level = [item for one in held for item in one]
        depth += bool(held)
    return depth


def _holds(value: t.Any) -> bool:
    return isinstance(value, (dict, list))
