# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Counters that the devices of a pool share, while devices are being chosen. Pure.

Kubernetes keeps them by the name of the pool alone (POOL_NAMES in _base/dra/versions.py).
"""

from __future__ import annotations

from functools import lru_cache

from gpu_plugin.cluster.quantity import Number

from .values import Devices, Pool, Use

_Counts = dict[tuple[str, str], Number]


class Counters:
    """What is left of counters, and what is consumed by devices that are being chosen."""

    def __init__(self, devices: Devices, use: Use) -> None:
        self._devices = devices
        self._use = use
        self._left: dict[str, _Counts] = {}
        self._consumed: dict[str, _Counts] = {}

    def charge(self, index: int) -> bool:
        """Consume a device's counters. Returns False where the pool has not enough: nothing is consumed then."""
        pool = self._devices.pool_of[index]
        left = self._available(pool)
        consumed = self._consumed.setdefault(pool.name, {})
        device = self._devices.row[index]
        for of, counter, amount in device.consumes:
            name = (of, counter)
            if name in left and consumed.get(name, 0) + amount > left[name]:
                return False
        if any(amount < 0 for amount in left.values()):  # Kubernetes gives nothing of the pool then
            return False
        for of, counter, amount in device.consumes:
            consumed[of, counter] = consumed.get((of, counter), 0) + amount
        return True

    def refund(self, index: int) -> None:
        """Give a device's counters back."""
        consumed = self._consumed[self._devices.pool_of[index].name]
        for of, counter, amount in self._devices.row[index].consumes:
            consumed[of, counter] -= amount

    def _available(self, pool: Pool) -> _Counts:
        if pool.name not in self._left:
            self._left[pool.name] = left(pool, self._devices, self._use)
        return self._left[pool.name]


@lru_cache(maxsize=16)
def left(pool: Pool, devices: Devices, use: Use) -> _Counts:
    """Return what allocated devices leave of a pool's counters; less than nothing where a slice has shrunk."""
    counts = dict(pool.counters)
    for index in use.drawing:
        if devices.pool_of[index] is pool:
            for of, counter, amount in devices.row[index].consumes:
                if (of, counter) in counts:
                    counts[of, counter] -= amount
    return counts


def taken(index: int, devices: Devices, use: Use) -> bool:
    """Return whether a device is in use as a whole, or something else has what it is made of."""
    device = devices.row[index]
    if index in use.busy:
        return True
    if not device.consumes or (device.multiple and index in use.capacity):
        return False
    counters = left(devices.pool_of[index], devices, use)
    return any(counters.get((of, name), amount) < amount for of, name, amount in device.consumes)
