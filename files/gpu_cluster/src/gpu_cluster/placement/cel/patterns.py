# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Regular expressions of selectors: RE2's, as far as Python reads them alike and in bounded time. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from math import comb
from typing import Final, NamedTuple

from .errors import CelError

_LONGEST: Final = 256
_UNBOUNDED: Final = 4
# In which a pattern may match a text: those of four repetitions and 64 letters, as many as an attribute may have.
_MOST_WAYS: Final = 1_000_000
_ONE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^:)]*[:)]|[()*+?{|}]|.", re.DOTALL)


class _Form(NamedTuple):
    """What is known of a pattern: why it is not read, its repetitions, and in how many ways its rest may match."""

    problem: str
    repeats: int = 0
    ways: int = 1


@lru_cache(maxsize=4096)
def matches(text: str, pattern: str) -> bool:
    """Tell whether a pattern matches in a text. CelError: it is none that is read here, or would take long."""
    found, form = compiled(pattern), _form(pattern)
    if comb(len(text) + form.repeats, form.repeats) * form.ways > _MOST_WAYS:
        many = f"can match a text of {len(text)} letters in too many ways"
        raise CelError(f"the pattern {pattern[:80]!r} {many}")
    return found.search(text) is not None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern. CelError: it is none, or not one of those that are read here."""
    if why := _form(pattern).problem:
        raise CelError(f"the pattern {pattern[:80]!r} is not supported: {why}")
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise CelError(f"the pattern {pattern[:80]!r} is not valid: {error}") from error


@lru_cache(maxsize=256)
def _form(pattern: str) -> _Form:
    if len(pattern) > _LONGEST:
        return _Form(f"it is longer than {_LONGEST} letters")
    repeats, ways = 0, 1
    alternatives = [1]  # of the pattern, and of each group that is open
    ambiguous = [False]  # whether each has in it what can match in several ways
    closed_ambiguous = False
    for found in _ONE.finditer(pattern):
        word = found[0]
        if word[0] == "\\" and (word[1].isdigit() or word[1] in "kgZ"):
            return _Form(f"{word} is not in RE2")
        if word.startswith("(?") and word not in ("(?:", "(?i)", "(?s)", "(?m)"):
            return _Form(f"{word} is not read")
        if word in ("(", "(?:"):
            alternatives.append(1)
            ambiguous.append(False)
        elif word == ")" and len(ambiguous) > 1:
            closed_ambiguous = ambiguous.pop()
            ways *= alternatives.pop()
            ambiguous[-1] |= closed_ambiguous
            continue
        elif word in "*+?{|":
            if word in "*+{" and closed_ambiguous:
                return _Form("a repetition within a repetition is not read")
            repeats += word in "*+{"
            ways *= 1 + (word == "?")
            alternatives[-1] += word == "|"
            ambiguous[-1] = True
        closed_ambiguous = False
    if repeats > _UNBOUNDED:
        return _Form(f"it has more than {_UNBOUNDED} repetitions")
    return _Form("", repeats, ways * alternatives[0])
