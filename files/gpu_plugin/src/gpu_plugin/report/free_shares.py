# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices have a share that nobody uses, and what a container with it gets: gpu.node.validate tries one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        rows: the devices with those who have them, as far as the kubelet says.
        daemons: the states of the control daemons.
        holders_known: whether the kubelet says. Where it does not, a device with a client has no free share.
    """
    used = {
        row.uuid: (sum(use.shares for use in row.used_by), row.shares)
        for row in rows
        if row.health == HEALTHY
    }
    return [
        share
        for daemon in daemons
        for share in _share(daemon, *used.get(daemon["device"], (0, 0)), holders_known)
    ]


def _share(
    daemon: Mapping[str, Any], used: int, shares: int, holders_known: bool
) -> Iterator[dict[str, Any]]:
    settings, asked = settings_of(daemon["settings"]), daemon["limits"]["asked"]
    ready = daemon["state"] == READY and not daemon["problem"]
    # A server for one user takes no other user while it has clients.
    joins = not daemon["clients"] or (daemon["multi_user"] and holders_known)
    if not (settings and asked and ready and joins and used < shares):
        return
    if settings.owner != DEVICE_PLUGIN:
        return  # claims have shares of sizes of their own
    bounds = Bounds(asked["memory_mib"], asked["threads"])
    names = Names(daemon["device"], settings.root)
    part = part_within(bounds, names, settings, own_shm=daemon["own_shm"])
    mounts = [mount._asdict() for mount in part.mounts]
    yield {"device": names.device, "env": part.envs, "mounts": mounts}
