# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has a GPU open: processes, with the pod, container or service that runs each."""

from __future__ import annotations

import re
import typing as t

from ...._base.kubelet import pods
from ...._base.services.driver import FABRIC_SERVICE, SERVICE
from ...._machine.devices import Device, parse_majors
from ...._machine.host import Host
from ...machine.facts import proc
from ..users import Container, User, container_of, docker_name, podman_name, unit_of

DRIVERS_OWN = ("nvidia-persiste", "nv-fabricmanage")  # the kernel keeps 15 characters
DRIVERS_CGROUPS = tuple(f"/system.slice/{unit}" for unit in (SERVICE, FABRIC_SERVICE))
MAJOR = 195  # NVIDIA's in the kernel's list of devices; those of unified memory and of capabilities are dynamic
DRIVER = "nvidia"  # with which the names of the driver's majors begin
ANONYMOUS = ("socket:", "pipe:", "anon_inode:")  # how proc_pid_fd(5) shows what has no path
DOCKER = "/var/lib/docker/containers/{}/config.v2.json"
PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"


def gpu_users(host: Host, devices: t.Optional[t.Collection[Device]] = None) -> t.Tuple[User, ...]:
    """Return the processes that have a GPU open, or one of these devices, but for the driver's own daemons."""
    majors = {MAJOR, *parse_majors(host.read("/proc/devices"), DRIVER)}
    users = []
    for pid in host.listdir("/proc"):
        if not pid.isdigit():
            continue
        opened = open_devices(host, int(pid))
        if any(
            device.major in majors if devices is None else device in devices for device in opened
        ):
            user = user_of(host, int(pid))
            users += [] if _is_own(host, user) else [user]
    return tuple(users)


def open_devices(host: Host, pid: int) -> t.FrozenSet[Device]:
    """Return the character devices that a process has open, by their numbers.

    A process may have made a node of its own, by any name, in any file system; its number is the driver's all the same.
    """
    folder = f"/proc/{pid}/fd"
    paths = [f"{folder}/{number}" for number in host.listdir(folder)]
    devices = [host.character_device(path) for path in paths if _may_be_device(host, path)]
    return frozenset(device for device in devices if device)


def _may_be_device(host: Host, path: str) -> bool:
    return not (host.readlink(path) or ANONYMOUS[0]).startswith(ANONYMOUS)


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


def _is_own(host: Host, user: User) -> bool:
    """Return whether a process is a daemon of the driver, by what its user can't choose.

    Anybody can have such a name. A unit's cgroup takes nobody else's processes, and a daemon that
    was started by hand is root's and sees the same files as we do, which no container does.
    """
    pid = str(user.pid)
    where = pods.paths(proc(host, pid, "cgroup"), proc(host, "1", "cgroup"))
    if any(path in DRIVERS_CGROUPS for path in where):
        return True
    users = re.search(r"^Uid:(.*)$", proc(host, pid, "status"), re.M)
    if user.program not in DRIVERS_OWN or users is None or set(users[1].split()) != {"0"}:
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
