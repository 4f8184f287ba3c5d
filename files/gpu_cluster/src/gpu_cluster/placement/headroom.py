# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The most that any device of a node has left, by which most nodes are passed over without a search. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_plugin.cluster.quantity import Number

from .candidates import Candidates
from .capacity import free
from .claims import Claim, Request
from .counters import taken
from .values import Devices, Use


@dataclass(frozen=True)
class Headroom:
    """The most that a device has left of each capacity, and the most that one has when it is not in use.

    ``free`` is of the devices that are not in use by something else; ``devices`` is their number.
    """

    free: Mapping[str, Number]
    largest: Mapping[str, Number]
    devices: int


UNKNOWN: Final = Headroom({}, {}, -1)


def simple(claims: tuple[Claim, ...]) -> Request | None:
    """Return the one request of claims that have just one without alternatives, else None."""
    if len(claims) != 1 or len(claims[0].requests) != 1 or len(claims[0].requests[0]) != 1:
        return None
    request = claims[0].requests[0][0]
    return None if request.count is None or request.parent else request


def family(request: Request) -> Hashable:
    """Return what requests have in common that the same devices suit, whatever their amounts."""
    return (request.device_class, request.selectors, request.tolerations)


def headroom(request: Request, devices: Devices, use: Use, candidates: Candidates) -> Headroom:
    """Return what is left on a node for requests of a family, UNKNOWN where a search has to tell."""
    most: dict[str, Number] = {}
    largest: dict[str, Number] = {}
    number = 0
    for one in candidates.of(devices, request):
        if one.error:
            return UNKNOWN
        device = devices.row[one.device]
        if request.barred(device) is not None:
            continue
        for name, capacity in device.capacities.items():
            largest[name] = max(capacity.value, largest.get(name, 0))
        if taken(one.device, devices, use):
            continue
        number += 1
        used = use.capacity.get(one.device, {})
        for name in device.capacities:
            most[name] = max(free(device, name, used), most.get(name, 0))
    return Headroom(most, largest, number)


def lacking(request: Request, room: Headroom) -> str | None:
    """Return a capacity of which no device has enough left, empty where there is no device; None: it may fit."""
    if room.devices < 0:
        return None
    if not room.devices:
        return ""
    for name, amount in request.capacity.items():
        if amount > room.free.get(name, -1):
            return name
    return None
