# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ResourceClaims ask for, and what DeviceClasses stand for (resource.k8s.io/v1, as JSON). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.cluster import quantity
from gpu_plugin.cluster.quantity import Number

from .cel import Selector
from .values import Device, Taint

Json = Mapping[str, Any]
MOST_DEVICES: Final = 32  # that a claim can have (resource.k8s.io/v1 AllocationResultsMaxSize)


@dataclass(frozen=True)
class Toleration:
    """A toleration of devices' taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint does not matter."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


@dataclass(frozen=True, eq=False)
class Request:
    """One way to satisfy a request of a claim: ``count`` devices, or all where it is None."""

    name: str
    parent: str
    device_class: str
    count: int | None
    selectors: tuple[Selector, ...] = ()
    capacity: Mapping[str, Number] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that an allocation's results have."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def barred(self, device: Device) -> Taint | None:
        """Return the first taint of a device that keeps it from being allocated."""
        for taint in device.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not any(
                one.tolerates(taint) for one in self.tolerations
            ):
                return taint
        return None


@dataclass(frozen=True)
class Constraint:
    """A constraint over the devices of some requests (of all where there are none)."""

    attribute: str
    distinct: bool
    requests: frozenset[str] = frozenset()

    def concerns(self, request: Request) -> bool:
        """Return whether a request's devices are meant."""
        top = request.parent or request.name
        return not self.requests or bool(self.requests & {top, request.full_name})


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim: each of its requests is a row of alternatives, the first that can be had is taken."""

    name: str
    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Constraint, ...] = ()


def classes(objects: Mapping[str, Json]) -> dict[str, tuple[Selector, ...]]:
    """Return the selectors of DeviceClasses by their name. InputError: one is not understood."""
    return {
        name: _selectors(one.get("spec") or {}, f"DeviceClass {name}")
        for name, one in objects.items()
    }


def claim(name: str, spec: Json) -> Claim:
    """Return what a claim's spec asks for. InputError: it can't be understood, or is not supported."""
    asked = spec.get("devices") or {}
    return Claim(
        name,
        tuple(tuple(_alternatives(name, one)) for one in asked.get("requests") or ()),
        tuple(_constraint(name, one) for one in asked.get("constraints") or ()),
    )


def _alternatives(claim_name: str, raw: Json) -> Iterator[Request]:
    name = str(raw.get("name", ""))
    if raw.get("exactly"):
        yield _request(claim_name, name, "", raw["exactly"])
    elif raw.get("firstAvailable"):
        for one in raw["firstAvailable"]:
            yield _request(claim_name, str(one.get("name", "")), name, one)
    else:
        raise InputError.of(
            f"claim {claim_name}, request {name}", dict(raw), "exactly or firstAvailable"
        )


def _request(claim_name: str, name: str, parent: str, raw: Json) -> Request:
    key = f"claim {claim_name}, request {f'{parent}/{name}' if parent else name}"
    if raw.get("adminAccess"):
        raise InputError.of(f"{key}: adminAccess", True, "no admin access, which is not modelled")
    if not raw.get("deviceClassName"):
        raise InputError.of(f"{key}: deviceClassName", raw.get("deviceClassName"), "a DeviceClass")
    capacity = (raw.get("capacity") or {}).get("requests") or {}
    return Request(
        name,
        parent,
        str(raw["deviceClassName"]),
        _count(key, raw),
        _selectors(raw, key),
        {str(of): quantity.of(value, f"{key}: {of}") for of, value in capacity.items()},
        tuple(_toleration(one) for one in raw.get("tolerations") or ()),
    )


def _count(key: str, raw: Json) -> int | None:
    mode = raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return None
    if mode != "ExactCount":
        raise InputError.of(f"{key}: allocationMode", mode, "ExactCount or All")
    count = raw.get("count")
    if count is None:
        return 1
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError.of(f"{key}: count", count, "a number from 1 on")
    return count


def _selectors(raw: Json, key: str) -> tuple[Selector, ...]:
    found = []
    for number, one in enumerate(raw.get("selectors") or ()):
        expression = (one.get("cel") or {}).get("expression")
        if not isinstance(expression, str):
            raise InputError.of(
                f"{key}: selectors[{number}]", one, "a selector with cel.expression"
            )
        found.append(Selector.of(expression))
    return tuple(found)


def _toleration(raw: Json) -> Toleration:
    return Toleration(
        str(raw.get("key") or ""),
        str(raw.get("operator") or "Equal"),
        str(raw.get("value") or ""),
        str(raw.get("effect") or ""),
    )


def _constraint(name: str, raw: Json) -> Constraint:
    requests = frozenset(str(one) for one in raw.get("requests") or ())
    if raw.get("matchAttribute"):
        return Constraint(str(raw["matchAttribute"]), False, requests)
    if raw.get("distinctAttribute"):
        return Constraint(str(raw["distinctAttribute"]), True, requests)
    raise InputError.of(
        f"claim {name}: constraints", dict(raw), "matchAttribute or distinctAttribute"
    )
