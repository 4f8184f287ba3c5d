# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ResourceClaims ask for, and what DeviceClasses stand for (resource.k8s.io/v1, as JSON). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.model.quantity import Number

from .devices import Device, amounts
from .selectors import Selector, selector

Json = Mapping[str, Any]


class Refused(Exception):
    """Kubernetes gives up on a pod at once, whatever other nodes have: its claim can't be as it is."""


@dataclass(frozen=True, eq=False)
class Request:
    """One way to satisfy a request of a claim: ``count`` devices, or all where it is None."""

    name: str
    parent: str
    device_class: str
    count: int | None = 1
    selectors: tuple[Selector, ...] = ()
    capacity: Mapping[str, Number] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that an allocation's results have."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def barred(self, device: Device) -> Json | None:
        """Return the first taint of a device that keeps it from being allocated."""
        return untolerated(device.taints, self.tolerations) if device.taints else None


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim: each of its requests is a row of alternatives, the first that can be had is taken."""

    name: str
    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Json, ...] = ()


def untolerated(taints: Iterable[Json], tolerations: Iterable[Json]) -> Json | None:
    """Return the first taint, of a node or a device, that keeps out what has these tolerations."""
    for taint in taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
            (one.get("effect") or taint["effect"]) == taint["effect"]
            and (one.get("key") or taint.get("key")) == taint.get("key")
            and (
                one.get("operator") == "Exists"
                or (one.get("value") or "") == (taint.get("value") or "")
            )
            for one in tolerations
        ):
            return taint
    return None


def tainted(taint: Json) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint['effect']}"


def claim(name: str, spec: Json) -> Claim:
    """Return what a claim's spec asks for. InputError: it can't be understood, or is not supported."""
    asked = spec.get("devices") or {}
    constraints = tuple(asked.get("constraints") or ())
    for one in constraints:
        if not (one.get("matchAttribute") or one.get("distinctAttribute")):
            expected = "matchAttribute or distinctAttribute"
            raise InputError.of(f"claim {name}: constraints", dict(one), expected)
    requests = tuple(tuple(_alternatives(name, one)) for one in asked.get("requests") or ())
    return Claim(name, requests, constraints)


def _alternatives(claim_name: str, raw: Json) -> Iterator[Request]:
    name = str(raw.get("name", ""))
    if raw.get("exactly"):
        yield _request(claim_name, name, "", raw["exactly"])
    elif raw.get("firstAvailable"):
        for one in raw["firstAvailable"]:
            yield _request(claim_name, str(one.get("name", "")), name, one)
    else:
        key = f"claim {claim_name}, request {name}"
        raise InputError.of(key, dict(raw), "exactly or firstAvailable")


def _request(claim_name: str, name: str, parent: str, raw: Json) -> Request:
    key = f"claim {claim_name}, request {f'{parent}/{name}' if parent else name}"
    if raw.get("adminAccess"):
        raise InputError.of(f"{key}: adminAccess", True, "no admin access, which is not modelled")
    if not raw.get("deviceClassName"):
        raise InputError.of(f"{key}: deviceClassName", raw.get("deviceClassName"), "a DeviceClass")
    mode, count = raw.get("allocationMode") or "ExactCount", raw.get("count", 1)
    if mode not in ("All", "ExactCount"):
        raise InputError.of(f"{key}: allocationMode", mode, "ExactCount or All")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError.of(f"{key}: count", count, "a number from 1 on")
    return Request(
        name,
        parent,
        str(raw["deviceClassName"]),
        None if mode == "All" else count,
        selectors(raw, key),
        amounts((raw.get("capacity") or {}).get("requests"), f"{key}: "),
        tuple(raw.get("tolerations") or ()),
    )


def selectors(raw: Json, key: str) -> tuple[Selector, ...]:
    """Return the selectors of a request or of a class's spec. NodeError: one is not understood."""
    found = []
    for number, one in enumerate(raw.get("selectors") or ()):
        expression = (one.get("cel") or {}).get("expression")
        if not isinstance(expression, str):
            expected = "a selector with cel.expression"
            raise InputError.of(f"{key}: selectors[{number}]", one, expected)
        found.append(selector(expression))
    return tuple(found)
