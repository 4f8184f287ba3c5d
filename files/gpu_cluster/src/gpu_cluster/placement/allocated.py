# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What claims that are allocated have of a node's devices (status.allocation, as JSON). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_plugin.cluster import quantity
from gpu_plugin.cluster.quantity import Number

from .values import Devices, Use

Json = Mapping[str, Any]


def use_of(claims: Iterable[Json], devices: Devices) -> Use:
    """Return what is in use of a node's devices. What these claims have elsewhere does not count."""
    busy: set[int] = set()
    shared: set[int] = set()
    consumed: dict[int, dict[str, Number]] = {}
    for result in _results(claims):
        index = devices.index.get((result["driver"], result["pool"], result["device"]))
        if index is None or result.get("adminAccess"):
            continue
        if not result.get("shareID"):
            busy.add(index)
            continue
        shared.add(index)
        for name, value in (result.get("consumedCapacity") or {}).items():
            amounts = consumed.setdefault(index, {})
            amounts[name] = amounts.get(name, 0) + quantity.of(value, f"consumedCapacity.{name}")
    rows = tuple(sorted((index, tuple(sorted(of.items()))) for index, of in consumed.items()))
    return Use(frozenset(busy), frozenset(shared), rows)


def _results(claims: Iterable[Json]) -> Iterable[Json]:
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        yield from (allocation.get("devices") or {}).get("results") or ()
