# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kubernetes' quantities, written as the API server writes them: what it returns compares equal. Pure."""

from __future__ import annotations

import typing as t

MIB: t.Final = 1 << 20
BINARY: t.Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL: t.Final = ("", "k", "M", "G", "T", "P", "E")


def size(number: int) -> str:
    """Return bytes, in binary units where they are whole."""
    return _written(number, 1024, BINARY) if number % 1024 == 0 and number else count(number)


def count(number: int) -> str:
    """Return a number of things."""
    return _written(number, 1000, DECIMAL)


def _written(number: int, base: int, units: t.Tuple[str, ...]) -> str:
    power = 0
    while number and number % base == 0 and power < len(units) - 1:
        number, power = number // base, power + 1
    return f"{number}{units[power]}"
