# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How devices are offered to the kubelet: whole or as shares, and under whose name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..offer.devices import Device, Resources

NONE, TIME_SLICING, MPS = "none", "time-slicing", "mps"


@dataclass(frozen=True)
class Terms:
    """In how many replicas a device is offered, by which strategy, and whether under another name."""

    replicas: int
    strategy: str = NONE
    renamed: bool = False


UNSHARED: Final = Terms(1)


def terms(whole: Resources, shared: Resources) -> dict[str, Terms]:
    """Return the terms of each device by its UUID, from the resources before and after sharing."""
    before = {device.uuid: name for name, devices in whole.items() for device in devices}
    pieces: dict[str, list[tuple[str, Device]]] = {}
    for name, devices in shared.items():
        for device in devices:
            pieces.setdefault(device.uuid, []).append((name, device))
    return {
        uuid: Terms(len(some), _strategy(some[0][1]), some[0][0] != before[uuid])
        for uuid, some in pieces.items()
    }


def _strategy(device: Device) -> str:
    if getattr(device, "mps", None) is not None:
        return MPS
    return NONE if device.replica is None else TIME_SLICING


def together(some: Iterable[Terms]) -> Terms:
    """Return the terms that stand for several: the one with the most replicas."""
    return max(some, key=lambda one: one.replicas, default=UNSHARED)
