# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Quantities as Kubernetes writes them: 10000Mi, 30, 500m, 1e3. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from .._shared._base.errors import InputError

Number = int | Fraction

_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {letter: 1000**power for power, letter in enumerate("kMGTPE", 1)}
_SMALL: Final = {letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)}
_FACTORS: Final[dict[str, Number]] = {"": 1, **_BINARY, **_DECIMAL, **_SMALL}
_FORM: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([A-Za-z]{0,2}))\Z", re.ASCII
)


@lru_cache(maxsize=4096)
def parse(text: str, key: str = "quantity") -> Number:
    """Return the value of a quantity: an int where it is whole. InputError: it is none."""
    found = _FORM.match(text) if len(text) <= 64 else None
    if found is None or (found[3] or "") not in _FACTORS:
        raise InputError.of(key, text, "a quantity of Kubernetes, such as 10000Mi or 30")
    factor = Fraction(10) ** int(found[2]) if found[2] else _FACTORS[found[3] or ""]
    value = Fraction(found[1]) * factor
    return value.numerator if value.denominator == 1 else value


def of(value: object, key: str) -> Number:
    """Return a quantity of a manifest, where YAML may have made it a number. InputError: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError.of(key, value, "a quantity of Kubernetes, such as 10000Mi or 30")
    return parse(str(value), key)


def text(value: Number) -> str:
    """Return a quantity as people read it: whole MiB from 1 MiB on, else the plain number."""
    if isinstance(value, Fraction):
        return f"{int(value * 1000)}m" if (value * 1000).denominator == 1 else f"{float(value):g}"
    if value and abs(value) >= 1024**2 and value % 1024**2 == 0:
        return f"{value // 1024**2}Mi"
    return str(value)
