# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that several containers use at once, each as so many replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .devices import Device, Resources
from .sharing import Share, Sharing


def share(resources: Resources, sharing: Sharing) -> dict[str, tuple[Device, ...]]:
    """Return the resources with what is shared as replicas, under the names that these have.

    A device goes to the first share that asks for it; what no share asks for stays as it is.
    """
    found: dict[str, list[Device]] = {}
    for name, devices in resources.items():
        rest = list(devices)
        for one in sharing.shares:
            if one.name == name:
                taken = _taken(rest, one)
                rest = [device for device in rest if device not in taken]
                found.setdefault(one.offered_as, []).extend(_replicas(taken, one.replicas))
        found.setdefault(name, []).extend(rest)
    return {
        name: tuple(sorted(found[name], key=lambda device: (device.order, device.replica or 0)))
        for name in sorted(found)
        if found[name]
    }


def not_shared(resources: Resources, sharing: Sharing) -> list[str]:
    """Say which shares find nothing on this node."""
    notes = []
    for one in sharing.shares:
        known = resources.get(one.name, ())
        if not known:
            notes.append(f"sharing names {one.name}, which this node does not have")
        notes += [
            f"sharing names device {reference}, which is none of {one.name}"
            for reference in one.devices
            if known and not any(reference in _names(device) for device in known)
        ]
    return notes


def _taken(devices: list[Device], one: Share) -> list[Device]:
    if one.first is not None:
        return devices[: one.first]
    if not one.devices:
        return devices
    return [device for device in devices if not _names(device).isdisjoint(one.devices)]


def _names(device: Device) -> set[str]:
    names = {device.uuid, device.index}
    if device.instance is not None:
        gi, ci = device.instance
        names.add(f"MIG-{device.gpu_uuid}/{gi}/{ci}")
    return names


def _replicas(devices: Iterable[Device], count: int) -> list[Device]:
    if count == 1:  # nothing is shared: only the name may be another one
        return list(devices)
    return [
        replace(device, id=f"{device.uuid}::{number}", replica=number)
        for device in devices
        for number in range(count)
    ]
