# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How much of a device's capacity a request takes. Pure.

As Kubernetes' allocator reckons it (k8s.io/dynamic-resource-allocation/structured).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpu_plugin.cluster.quantity import Number

from .values import Capacity, Device


def taken(requested: Number | None, capacity: Capacity) -> Number:
    """Return what a request takes: what it asks for, rounded up as the policy says, or the default, or all."""
    if requested is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.minimum is not None:
        return _in_range(requested, capacity.minimum, capacity.step)
    return next((valid for valid in capacity.valid if requested <= valid), requested)


def _in_range(requested: Number, minimum: Number, step: Number | None) -> Number:
    if requested < minimum:
        return minimum
    if step is None:
        return requested
    first, width = math.ceil(minimum), math.ceil(step)
    return first + -(-(math.ceil(requested) - first) // width) * width


def violated(amount: Number, capacity: Capacity) -> bool:
    """Return whether a device's policy does not allow what would be taken."""
    if amount == capacity.default:
        return False
    if capacity.minimum is not None or capacity.maximum is not None or capacity.step is not None:
        return _out_of_range(amount, capacity)
    return bool(capacity.valid) and amount not in capacity.valid


def _out_of_range(amount: Number, capacity: Capacity) -> bool:
    if capacity.maximum is not None and amount > capacity.maximum:
        return True
    if capacity.step is None:
        return False
    return bool((math.ceil(amount) - math.ceil(capacity.minimum or 0)) % math.ceil(capacity.step))


def demand(requests: Mapping[str, Number], device: Device) -> tuple[tuple[str, Number], ...] | None:
    """Return what a request takes of each capacity of a device, or None where it can never be met.

    A name that the device does not have, and an amount that its policy does not allow, can't be met.
    """
    if any(name not in device.capacities for name in requests):
        return None
    amounts = []
    for name, capacity in device.capacities.items():
        amount = taken(requests.get(name), capacity)
        if violated(amount, capacity):
            return None
        amounts.append((name, amount))
    return tuple(amounts)


def free(device: Device, name: str, *used: Mapping[str, Number]) -> Number:
    """Return what is left of a capacity."""
    return device.capacities[name].value - sum(amounts.get(name, 0) for amounts in used)


def fits(
    amounts: tuple[tuple[str, Number], ...], device: Device, *used: Mapping[str, Number]
) -> bool:
    """Return whether a device has that much left of every capacity."""
    return all(amount <= free(device, name, *used) for name, amount in amounts)
