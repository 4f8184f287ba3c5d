# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Quantities of Kubernetes, read and written: 10000Mi, 30, 500m, 1e3. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from .._shared._base.errors import InputError

Number = int | Fraction
MIB: Final = 1 << 20

_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {letter: 1000**power for power, letter in enumerate("kMGTPE", 1)}
_SMALL: Final = {letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)}
_FACTORS: Final[dict[str, Number]] = {"": 1, **_BINARY, **_DECIMAL, **_SMALL}
_FORM: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([A-Za-z]{0,2}))\Z", re.ASCII
)
# Of what a pod's author wrote: longer ones, and larger exponents, are not worth the room.
_SHORT: Final = re.compile(
    r"[+-]?[0-9]{0,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})"
)


@lru_cache(maxsize=4096)
def parse(text: str, key: str = "quantity") -> Number:
    """Return the value of a quantity, an int if it is whole.

    Raises:
        InputError: if it isn't a quantity.
    """
    match = _FORM.match(text) if len(text) <= 64 else None
    if match is None or (match[3] or "") not in _FACTORS:
        raise InputError.of(key, text, "a quantity of Kubernetes, such as 10000Mi or 30")
    factor = Fraction(10) ** int(match[2]) if match[2] else _FACTORS[match[3] or ""]
    value = Fraction(match[1]) * factor
    return value.numerator if value.denominator == 1 else value


def of(value: object, key: str) -> Number:
    """Return a quantity of a manifest, of which YAML may have made a number.

    Raises:
        InputError: if it isn't a quantity.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError.of(key, value, "a quantity of Kubernetes, such as 10000Mi or 30")
    return parse(str(value), key)


def whole(value: object) -> int | None:
    """Return the value of a pod's quantity if it is a whole number, else None."""
    if not _SHORT.fullmatch(str(value)):
        return None
    try:
        number = of(value, "quantity")
    except InputError:
        return None
    return number if isinstance(number, int) else None


def size(number: int) -> str:
    """Return bytes as the API server writes them, in binary units if they are whole."""
    return _written(number, _BINARY) if number and number % 1024 == 0 else count(number)


def count(number: int) -> str:
    """Return a number as the API server writes it, so that its answer compares equal."""
    return _written(number, _DECIMAL)


def _written(number: int, units: Mapping[str, int]) -> str:
    fitting = (unit for unit in reversed([*units.items()]) if number and number % unit[1] == 0)
    unit, factor = next(fitting, ("", 1))
    return f"{number // factor}{unit}"
