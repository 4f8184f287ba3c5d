# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whole numbers that Kubernetes writes as quantities: 3, 3k, 10Gi, 1e3. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Final

MIB: Final = 1 << 20
FACTORS: Final = {"": Fraction(1)} | {
    unit: factor
    for power, letter in enumerate("KMGTPE", 1)
    for unit, factor in (
        (f"{letter}i", Fraction(1024**power)),
        (letter if power > 1 else "k", Fraction(1000**power)),
    )
}
FACTORS.update({letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)})
FORM: Final = re.compile(
    r"([+-]?)([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]{0,2}))"
)


def whole(value: Any) -> int | None:
    """Return the whole number that a quantity is, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    found = FORM.fullmatch(str(value))
    if found is None or (found[4] or "") not in FACTORS:
        return None
    factor = Fraction(10) ** int(found[3]) if found[3] else FACTORS[found[4] or ""]
    number = Fraction(f"{found[1]}{found[2]}") * factor
    return number.numerator if number.denominator == 1 else None
