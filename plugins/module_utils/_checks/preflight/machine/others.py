# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Looks for what other tools run on the node: a device plugin, a driver in a container, mig-parted's service."""

from __future__ import annotations

import typing as t

from ...._machine.host import Host
from ...._machine.room import Room
from ...._node.users.holders import OURS
from ...._node.users.machine.users import user_of
from .. import others
from ..problems import Problem


def plugins(host: Host, room: Room) -> t.Iterator[Problem]:
    """Yield the device plugins of others that answer. A socket that nobody listens on is nobody's."""
    for name in sorted(host.listdir(others.SOCKETS)):
        pid = room.listener(f"{others.SOCKETS}/{name}") if others.resource(name) else None
        if pid is not None:
            user = user_of(host, pid) if pid else None
            if not (user and user.unit == OURS and not user.pod):
                yield others.plugin(name, str(user or ""))


def driver(host: Host, source: str) -> t.List[Problem]:
    """Return the problem of a driver in a container, none where it has none."""
    return [others.driver(source)] if host.exists(others.PROGRAM) else []


def warnings(host: Host) -> t.Tuple[str, ...]:
    """Return what is to be said of services that do what the role mig does."""
    return others.mig_manager() if host.exists(others.MIG_MANAGER_ENABLED) else ()
