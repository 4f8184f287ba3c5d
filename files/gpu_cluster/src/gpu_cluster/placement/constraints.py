# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Constraints over the devices of a claim, while devices are being chosen. Pure."""

from __future__ import annotations

from .claims import Constraint, Request
from .values import Attribute, Device


class Match:
    """All devices have one value of an attribute."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._value: Attribute | None = None
        self._number = 0

    def add(self, request: Request, device: Device) -> bool:
        """Add a device where that is allowed, and return whether it was."""
        if not self._constraint.concerns(request):
            return True
        value = device.attribute(self._constraint.attribute)
        if value is None or (self._number and not _same(value, self._value)):
            return False
        self._value = value
        self._number += 1
        return True

    def remove(self, request: Request) -> None:
        """Take a device that was added out again."""
        self._number -= self._constraint.concerns(request)


class Distinct:
    """Each device has an own value of an attribute.

    Only the last device of each request counts, as in Kubernetes (LAST_DISTINCT in _base/dra/versions.py).
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._values: dict[str, Attribute] = {}
        self._number = 0

    def add(self, request: Request, device: Device) -> bool:
        """Add a device where that is allowed, and return whether it was."""
        if not self._constraint.concerns(request):
            return True
        value = device.attribute(self._constraint.attribute)
        if value is None:
            return False
        if self._number and any(_same(value, other) for other in self._values.values()):
            return False
        self._values[request.parent or request.name] = value
        self._number += 1
        return True

    def remove(self, request: Request) -> None:
        """Take a device that was added out again."""
        if self._constraint.concerns(request):
            self._values.pop(request.parent or request.name, None)
            self._number -= 1


def started(constraints: tuple[Constraint, ...]) -> list[Match | Distinct]:
    """Return constraints without any device yet."""
    return [Distinct(one) if one.distinct else Match(one) for one in constraints]


def _same(one: Attribute, other: Attribute | None) -> bool:
    return type(one) is type(other) and one == other
