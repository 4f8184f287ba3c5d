# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has a GPU open: processes, with the pod, container or service that runs each."""

from __future__ import annotations

import re
import typing as t

from ...._base import pods
from ...._base.services.driver import FABRIC_SERVICE, SERVICE
from ...._machine.host import Host
from ...machine.facts import proc
from ..users import Container, User, container_of, docker_name, podman_name, unit_of

DRIVERS_OWN = ("nvidia-persiste", "nv-fabricmanage")  # the kernel keeps 15 characters
DRIVERS_CGROUPS = tuple(f"/system.slice/{unit}" for unit in (SERVICE, FABRIC_SERVICE))
GONE = " (deleted)"
DOCKER = "/var/lib/docker/containers/{}/config.v2.json"
PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"


def gpu_users(host: Host, nodes: t.Optional[t.Collection[str]] = None) -> t.Tuple[User, ...]:
    """Return the processes that have a GPU open, or one of these device nodes, but for the driver's own daemons."""
    found = []
    for pid in host.listdir("/proc"):
        if not pid.isdigit():
            continue
        folder = f"/proc/{pid}/fd"
        opened = (host.readlink(f"{folder}/{number}") for number in host.listdir(folder))
        if any(one and _is_gpu(one, nodes) for one in opened):
            user = user_of(host, int(pid))
            found += [] if _is_own(host, user) else [user]
    return tuple(found)


def _is_gpu(path: str, nodes: t.Optional[t.Collection[str]]) -> bool:
    # The kernel's mark of a node that was removed, which keeps the GPU open all the same.
    name = path[: -len(GONE)] if path.endswith(GONE) else path
    return name.startswith("/dev/nvidia") if nodes is None else name in nodes


def user_of(host: Host, pid: int) -> User:
    """Return a process with what runs it."""
    cgroup, init = proc(host, str(pid), "cgroup"), proc(host, "1", "cgroup")
    where = pods.paths(cgroup, init)
    uid, container = pods.uid_of(cgroup, init), container_of(where)
    return User(
        pid=pid,
        program=proc(host, str(pid), "comm").strip("\n"),
        unit=unit_of(where),
        container=_named(host, container) if container else None,
        pod=pods.name_of(uid, host.listdir(pods.LOGS)) if uid else "",
    )


def _is_own(host: Host, one: User) -> bool:
    """Tell whether a process is a daemon of the driver, by what its user can't choose.

    Anybody can have such a name. A unit's cgroup takes nobody else's processes, and a daemon that
    was started by hand is root's and sees the same files as we do, which no container does.
    """
    pid = str(one.pid)
    where = pods.paths(proc(host, pid, "cgroup"), proc(host, "1", "cgroup"))
    if any(path in DRIVERS_CGROUPS for path in where):
        return True
    users = re.search(r"^Uid:(.*)$", proc(host, pid, "status"), re.M)
    if one.program not in DRIVERS_OWN or users is None or set(users[1].split()) != {"0"}:
        return False
    own = host.readlink("/proc/self/ns/mnt")
    return own is not None and host.readlink(f"/proc/{pid}/ns/mnt") == own


def _named(host: Host, container: Container) -> Container:
    """Return a container with its name, as far as Docker's or podman's files tell."""
    name = docker_name(host.read(DOCKER.format(container.id)))
    engine = "docker" if name else container.engine
    if not name:
        name = podman_name(host.read(PODMAN), container.id)
        engine = "podman" if name else engine
    return container._replace(name=name, engine=engine)
