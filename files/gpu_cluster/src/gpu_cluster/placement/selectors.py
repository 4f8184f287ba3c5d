# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Selectors of devices in CEL: Google's runtime, and what Kubernetes adds to it. Pure.

The runtime bounds patterns (RE2), nesting and iterations; what multiplies texts or iterations is not read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin.model import quantity

try:
    from cel_expr_python import cel
    from cel_expr_python.ext.ext_bindings import ExtBindings
except ImportError as _error:
    raise NodeError(
        "gpu-cluster simulate can't start here",
        cause=str(_error),
        hint="install gpu_cluster's requirements-simulate.txt in addition to gpu_plugin's requirements.txt",
    ) from _error

MOST_SECONDS: Final = 10  # for all devices, of which thousands take some milliseconds
LONGEST: Final = 10 << 10  # characters (resource.k8s.io/v1 CELSelectorExpressionMaxLength)
_ROUNDS: Final = re.compile(r"\b(?:map|filter|bind|all|exists\w*)\b")
_DOMAIN: Final = re.compile(r"""\.(?:attributes|capacity)\s*(?:\.\s*(\w+)|\[\s*["']([^"']*)["'])""")
_NUMBER: Final = r"(0|[1-9]\d{0,17})"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z", re.ASCII
)
_fraction: Final = lru_cache(maxsize=4096)(Fraction)
Json = Mapping[str, Any]


class CelError(Exception):
    """An expression that can't be evaluated for a device; Kubernetes stops scheduling the pod then."""


def amount(value: quantity.Number) -> Json:
    """Return a quantity as expressions have it, which is no number."""
    return {"quantity": str(value)}


def version(text: str, key: str = "version") -> Json:
    """Return a semantic version as expressions have it. InputError: it is none."""
    if not _SEMVER.match(text):
        raise InputError.of(key, text, "a semantic version such as 9.0.0")
    return {"semver": text.partition("+")[0]}


def _value(one: Json, kind: str = "") -> Any:
    """Return what is compared: a number, or parts, as of two versions that without a pre-release is the newer one."""
    if kind and kind not in one:
        raise ValueError(f"no such overload: it is no {kind}")
    if "quantity" in one:
        return _fraction(one["quantity"])
    found = _SEMVER.match(one["semver"])
    assert found is not None
    return (*map(int, found.group(1, 2, 3)), not found[4], found[4] or "")


def _compared(one: Json, other: Json) -> int:
    if one.keys() != other.keys():
        raise ValueError("no such overload: a quantity is not compared with a version")
    return int(_value(one) > _value(other)) - int(_value(one) < _value(other))


def _whole(one: Json) -> int:
    if _value(one, "quantity").denominator != 1:
        raise ValueError("the quantity is not an integer")
    return int(_value(one))


# What Kubernetes adds, by signature: the type of what is returned, and how.
_FUNCTIONS: Final[dict[str, tuple[Any, Callable[..., Any]]]] = {
    "quantity(string)": (cel.Type.MAP, lambda text: amount(quantity.parse(text))),
    "semver(string)": (cel.Type.MAP, version),
    "map.compareTo(map)": (cel.Type.INT, _compared),
    "map.isGreaterThan(map)": (cel.Type.BOOL, lambda one, other: _compared(one, other) > 0),
    "map.isLessThan(map)": (cel.Type.BOOL, lambda one, other: _compared(one, other) < 0),
    "map.isInteger()": (cel.Type.BOOL, lambda one: _value(one, "quantity").denominator == 1),
    "map.asInteger()": (cel.Type.INT, _whole),
    "map.asApproximateFloat()": (cel.Type.DOUBLE, lambda one: float(_value(one, "quantity"))),
    "map.sign()": (cel.Type.INT, lambda one: _compared(one, amount(0))),
    "map.major()": (cel.Type.INT, lambda one: _value(one, "semver")[0]),
    "map.minor()": (cel.Type.INT, lambda one: _value(one, "semver")[1]),
    "map.patch()": (cel.Type.INT, lambda one: _value(one, "semver")[2]),
    "string.lowerAscii()": (cel.Type.STRING, lambda text: text.encode().lower().decode()),
    "string.upperAscii()": (cel.Type.STRING, lambda text: text.encode().upper().decode()),
    "string.trim()": (cel.Type.STRING, str.strip),
}
_ENVIRONMENT: Final = cel.NewEnv(
    extensions=[ExtBindings()],
    variables={
        "device.driver": cel.Type.STRING,
        "device.allowMultipleAllocations": cel.Type.BOOL,
        "device.attributes": cel.Type("map<string, map<string, dyn>>"),
        "device.capacity": cel.Type("map<string, map<string, map<string, string>>>"),
    },
    functions=[
        cel.FunctionDecl(
            re.split(r"[.(]", signature)[-2],
            [cel.Overload(signature=signature, return_type=kind, impl=does)],
        )
        for signature, (kind, does) in _FUNCTIONS.items()
    ],
)


class Selector:
    """A CEL expression over a device. NodeError: it is not understood."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._spent = 0.0
        if len(expression) > LONGEST:
            raise _not_understood(expression, f"it is longer than {LONGEST} characters")
        rounds = _ROUNDS.findall(expression)
        if {"map", "filter"} & {*rounds} or ("bind" in rounds and len(rounds) > 1):
            many = f"with {', '.join(rounds)} it could take all memory, or hours"
            raise _not_understood(expression, many)
        try:
            self._program = _ENVIRONMENT.compile(expression)
        except (RuntimeError, TypeError) as error:  # the latter for what is no Unicode
            raise _not_understood(expression, str(error).splitlines()[0]) from error
        # A domain that a device does not have is an empty map in Kubernetes.
        self._domains: Json = {one or other: {} for one, other in _DOMAIN.findall(expression)}

    def matches(self, device: Json) -> bool:
        """Return whether a device is selected, by its variables. CelError: it can't be told."""
        data = {
            name: {**self._domains, **value} if isinstance(value, dict) else value
            for name, value in device.items()
        }
        if self._spent > MOST_SECONDS:
            raise CelError(f"it takes more than {MOST_SECONDS} s")
        begun = time.perf_counter()
        try:
            found = self._program.eval(data=data)
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise CelError(str(error)) from error
        finally:
            self._spent += time.perf_counter() - begun
        if found.type() == cel.Type.ERROR:
            raise CelError(str(found.value()))
        if found.type() != cel.Type.BOOL:
            raise CelError(f"the result is a {found.type().name()}, not a bool")
        return bool(found.value())


selector: Final = lru_cache(maxsize=4096)(Selector)


def _not_understood(expression: str, what: str) -> NodeError:
    hint = "docs/fractions/simulate.md lists what is"
    return NodeError(f"the selector {cut(expression)!r} is not understood", cause=what, hint=hint)
