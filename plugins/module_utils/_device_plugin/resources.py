# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The resources of the device plugin's status, in which devices are by UUID and may have shares."""

from __future__ import annotations

import typing as t

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"  # as the kubelet has it


def count(resource: t.Mapping[str, t.Any], health: str = "") -> int:
    """Return how many devices a resource has, or how many of such ``health``; of a shared one its shares."""
    devices, shares = (_table(resource.get(name)) for name in ("devices", "shares"))
    found = (uuid for uuid, one in devices.items() if health in ("", one))
    return sum(_number(shares.get(uuid)) for uuid in found)


def _number(value: t.Any) -> int:
    """Return a number of shares, one where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def _table(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, dict) else {}
