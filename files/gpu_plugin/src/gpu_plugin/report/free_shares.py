# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Free shares of devices, and what a container with one gets: gpu.node.validate tries one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._shared._base.dra.names import DEVICE_PLUGIN
from .._shared._device_plugin.resources import HEALTHY
from ..advertise.overview import Row
from ..model.mps.paths import Names
from ..model.mps.settings import Bounds, part_within
from ..mps.state import READY, settings_of


def free_shares(
    rows: Iterable[Row], daemons: Iterable[Mapping[str, Any]], *, holders_known: bool
) -> list[dict[str, Any]]:
    """Return the device, the variables and the mounts of a free share of each device that has one.

    Args:
        rows: The devices with their users, as far as the kubelet knows them.
        daemons: The states of the control daemons.
        holders_known: Whether the kubelet answers. If it does not, a device with a client has no free share.
    """
    used = {
        row.uuid: (sum(use.shares for use in row.used_by), row.shares)
        for row in rows
        if row.health == HEALTHY
    }
    result = []
    for daemon in daemons:
        settings, asked = settings_of(daemon["settings"]), daemon["limits"]["asked"]
        ready = daemon["state"] == READY and not daemon["problem"]
        # A server for one user takes no other user while it has clients.
        joins = not daemon["clients"] or (daemon["multi_user"] and holders_known)
        taken, shares = used.get(daemon["device"], (0, 0))
        if not (settings and asked and ready and joins and taken < shares):
            continue
        if settings.owner != DEVICE_PLUGIN:
            continue  # claims have shares of sizes of their own
        bounds = Bounds(asked["memory_mib"], asked["threads"])
        names = Names(daemon["device"], settings.root)
        part = part_within(bounds, names, settings, own_shm=daemon["own_shm"])
        mounts = [mount._asdict() for mount in part.mounts]
        result.append({"device": names.device, "env": part.envs, "mounts": mounts})
    return result
