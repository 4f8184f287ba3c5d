# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Many inputs that have to be refused, and the words that each refusal must have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
SHOWN = 200


def refused_otherwise(
    read: Callable[[T], object],
    cases: Iterable[tuple[T, str | Sequence[str]]],
    *errors: type[Exception],
) -> list[str]:
    """Return what is told of each case that is taken, or refused without one of its words."""
    found = []
    for case, words in cases:
        wanted = (words,) if isinstance(words, str) else words
        try:
            told = f"taken as {read(case)!r}"
        except errors as refusal:
            told = f"refused: {refusal}"
            if all(word in told for word in wanted):
                continue
        found.append(f"{case!r:.{SHOWN}} is {told}, expected {wanted}")
    return found
