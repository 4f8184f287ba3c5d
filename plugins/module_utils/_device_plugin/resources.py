# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The resources of the device plugin's status, in which devices are by UUID and may have shares."""

from __future__ import annotations

import typing as t

from .._base.text.json_data import is_whole, table

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"  # as the kubelet has it


def count(resource: t.Mapping[str, t.Any], health: str = "") -> int:
    """Return how many devices a resource has, or how many of this ``health``; the shares of a shared device count."""
    devices, shares = (table(resource.get(name)) for name in ("devices", "shares"))
    uuids = (uuid for uuid, device in devices.items() if health in ("", device))
    return sum(shared if is_whole(shared) else 1 for shared in map(shares.get, uuids))
