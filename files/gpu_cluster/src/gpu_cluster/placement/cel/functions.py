# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What operators and functions of CEL do with values, as in Kubernetes. Pure.

Values are str, int, float, bool, None, Version, Quantity, lists and maps; a wrong kind is a CelError.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.cluster import quantity

from .. import slices
from ..values import Version
from .errors import CelError
from .patterns import matches

_LIMIT: Final = 2**63


@dataclass(frozen=True)
class Quantity:
    """An amount of a capacity, which CEL keeps apart from numbers."""

    value: quantity.Number


def kind(value: object) -> str:
    """Return the kind of a value; ints and doubles are compared with each other, so that they are one."""
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list | tuple):
        return "list"
    return "map" if isinstance(value, Mapping) else type(value).__name__


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; those of different kinds never are."""
    if kind(one) != kind(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def within(one: Any, whole: Any) -> bool:
    """Return whether a list has a value, or a map a key."""
    if isinstance(whole, Mapping):
        return isinstance(one, str) and one in whole
    if not isinstance(whole, list | tuple):
        raise CelError(f"in: a {kind(whole)} is no list or map")
    return any(equal(one, other) for other in whole)


def _compare(one: Any, other: Any) -> int:
    if kind(one) != kind(other) or kind(one) not in ("number", "str", "bool"):
        raise CelError(f"no such overload: a {kind(one)} is not compared with a {kind(other)}")
    return int(one > other) - int(one < other)


def _number(sign: str, one: Any, other: Any) -> Any:
    if sign == "+" and type(one) is type(other) and isinstance(one, str | tuple):
        return one + other
    if type(one) is not type(other) or kind(one) != "number":
        raise CelError(f"no such overload: {kind(one)} {sign} {kind(other)}")
    if isinstance(one, float):
        return _float(sign, one, other)
    if sign in "/%" and other == 0:
        raise CelError("division by zero")
    result = _INTEGERS[sign](one, other)
    if not -_LIMIT <= result < _LIMIT:
        raise CelError("integer overflow")
    return result


def _float(sign: str, one: float, other: float) -> float:
    if sign == "%":
        raise CelError("no such overload: double % double")
    if sign == "/" and other == 0:
        return math.nan if one == 0 else math.copysign(math.inf, one)
    return {"+": one + other, "-": one - other, "*": one * other}.get(sign) or (
        one / other if sign == "/" else 0.0
    )


_INTEGERS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1),
    "%": lambda one, other: int(math.copysign(abs(one) % abs(other), one)),
}

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": equal,
    "!=": lambda one, other: not equal(one, other),
    "<": lambda one, other: _compare(one, other) < 0,
    "<=": lambda one, other: _compare(one, other) <= 0,
    ">": lambda one, other: _compare(one, other) > 0,
    ">=": lambda one, other: _compare(one, other) >= 0,
    "in": within,
    **{sign: functools.partial(_number, sign) for sign in ("+", "-", "*", "/", "%")},
}


def _version(text: str) -> Version:
    try:
        return slices.version(text)
    except InputError as error:
        raise CelError(str(error)) from error


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.parse(text))
    except InputError as error:
        raise CelError(str(error)) from error


def _valid(text: str, parse: Callable[[str], object]) -> bool:
    try:
        parse(text)
    except CelError:
        return False
    return True


def _whole(value: Quantity) -> int:
    if not isinstance(value.value, int):
        raise CelError("cannot convert value to integer")
    return value.value


def _sized(value: Any) -> int:
    return len(value)


Function = tuple[tuple[type, ...], tuple[type, ...], Callable[..., Any]]

GLOBALS: Final[dict[str, Function]] = {
    "quantity": ((), (str,), _quantity),
    "isQuantity": ((), (str,), lambda text: _valid(text, _quantity)),
    "semver": ((), (str,), _version),
    "isSemver": ((), (str,), lambda text: _valid(text, _version)),
    "size": ((), (object,), _sized),
}
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {lower: upper for upper, lower in _LOWER.items()}
_STRINGS: Final[dict[str, Function]] = {
    "contains": ((str,), (str,), lambda text, part: part in text),
    "startsWith": ((str,), (str,), str.startswith),
    "endsWith": ((str,), (str,), str.endswith),
    "matches": ((str,), (str,), matches),
    "lowerAscii": ((str,), (), lambda text: text.translate(_LOWER)),
    "upperAscii": ((str,), (), lambda text: text.translate(_UPPER)),
    "trim": ((str,), (), str.strip),
    "size": ((str, tuple, Mapping), (), _sized),
}
_ORDERED: Final = {
    "compareTo": lambda one, other: (one > other) - (one < other),
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
}


def _ordered(name: str) -> Callable[[Any, Any], Any]:
    def call(one: Any, other: Any) -> Any:
        if type(one) is not type(other):
            raise CelError(f"no such overload: {kind(one)}.{name}({kind(other)})")
        pair = (one.value, other.value) if isinstance(one, Quantity) else (one, other)
        return _ORDERED[name](*pair)

    return call


METHODS: Final[dict[str, Function]] = {
    **_STRINGS,
    **{name: ((Quantity, Version), (object,), _ordered(name)) for name in _ORDERED},
    "isInteger": ((Quantity,), (), lambda one: isinstance(one.value, int)),
    "asInteger": ((Quantity,), (), _whole),
    "asApproximateFloat": ((Quantity,), (), lambda one: float(one.value)),
    "sign": ((Quantity,), (), lambda one: (one.value > 0) - (one.value < 0)),
    "major": ((Version,), (), lambda one: one.major),
    "minor": ((Version,), (), lambda one: one.minor),
    "patch": ((Version,), (), lambda one: one.patch),
}
