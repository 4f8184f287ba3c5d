# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Regular expressions of selectors: RE2's, as far as Python reads them alike and in bounded time. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .errors import CelError

_LONGEST: Final = 256
_UNBOUNDED: Final = 4  # an attribute has 64 letters at most, so that many repetitions stay quick
_ONE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^:)]*[:)]|[()*+?|{}]|.", re.DOTALL)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern. CelError: it is none, or not one of those that are read here."""
    why = _problem(pattern)
    if why:
        raise CelError(f"the pattern {pattern[:80]!r} is not supported: {why}")
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise CelError(f"the pattern {pattern[:80]!r} is not valid: {error}") from error


def _problem(pattern: str) -> str:
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST} letters"
    repeats = 0
    open_groups: list[bool] = []  # whether each has in it what can match in several ways
    closed_ambiguous = False
    for found in _ONE.finditer(pattern):
        word = found[0]
        if word[0] == "\\" and (word[1].isdigit() or word[1] in "kgZ"):
            return f"{word} is not in RE2"
        if word.startswith("(?") and word not in ("(?:", "(?i)", "(?s)", "(?m)"):
            return f"{word} is not read"
        if word == "(" or word == "(?:":
            open_groups.append(False)
        elif word == ")":
            closed_ambiguous = bool(open_groups and open_groups.pop())
            if closed_ambiguous and open_groups:
                open_groups[-1] = True
            continue
        elif word in "*+?{|":
            if word in "*+{" and closed_ambiguous:
                return "a repetition within a repetition is not read"
            repeats += word in "*+{"
            if open_groups:
                open_groups[-1] = True
        closed_ambiguous = False
    return f"it has more than {_UNBOUNDED} repetitions" if repeats > _UNBOUNDED else ""
