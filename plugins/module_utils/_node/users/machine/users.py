# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The processes that have a GPU open, with the pod, container or service of each."""

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
ANONYMOUS = ("socket:", "pipe:", "anon_inode:")  # of open files without a path, in proc_pid_fd(5)
DOCKER = "/var/lib/docker/containers/{}/config.v2.json"
PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"


def gpu_users(host: Host, devices: t.Optional[t.Collection[Device]] = None) -> t.Tuple[User, ...]:
    """Return the processes that have a GPU open, or one of these devices, except the driver's own daemons."""
    majors = {MAJOR, *parse_majors(host.read("/proc/devices"), DRIVER)}
    users = []
    for pid in map(int, filter(str.isdigit, host.listdir("/proc"))):
        opened = open_devices(host, pid)
        if devices is None:
            has_open = any(device.major in majors for device in opened)
        else:
            has_open = any(device in devices for device in opened)
        if has_open:
            user = user_of(host, pid)
            users += [] if _is_own(host, user) else [user]
    return tuple(users)


def open_devices(host: Host, pid: int) -> t.FrozenSet[Device]:
    """Return the character devices that a process has open, by their numbers.

    A process may have made a node of its own, by any name, in any file system; its number is the driver's all the same.
    """
    devices = []
    for path in (f"/proc/{pid}/fd/{number}" for number in host.listdir(f"/proc/{pid}/fd")):
        target = host.readlink(path)
        if target and not target.startswith(ANONYMOUS):
            devices.append(host.character_device(path))
    return frozenset(device for device in devices if device)


def user_of(host: Host, pid: int) -> User:
    """Return a process with its pod, container or service."""
    cgroup, init = proc(host, str(pid), "cgroup"), proc(host, "1", "cgroup")
    paths = pods.paths(cgroup, init)
    uid, container = pods.uid_of(cgroup, init), container_of(paths)
    return User(
        pid=pid,
        program=proc(host, str(pid), "comm").strip("\n"),
        unit=unit_of(paths),
        container=_named(host, container) if container else None,
        pod=pods.name_of(uid, host.listdir(pods.LOGS)) if uid else "",
    )


def _is_own(host: Host, user: User) -> bool:
    """Return whether a process is a daemon of the driver, by attributes that its user can't choose.

    Any process can have such a name. A unit's cgroup has only its own processes, and a daemon that was started by hand
    is root's and in our mount namespace, unlike any container.
    """
    pid = str(user.pid)
    paths = pods.paths(proc(host, pid, "cgroup"), proc(host, "1", "cgroup"))
    if any(path in DRIVERS_CGROUPS for path in paths):
        return True
    users = re.search(r"^Uid:(.*)$", proc(host, pid, "status"), re.M)
    if user.program not in DRIVERS_OWN or users is None or set(users[1].split()) != {"0"}:
        return False
    own = host.readlink("/proc/self/ns/mnt")
    return own is not None and host.readlink(f"/proc/{pid}/ns/mnt") == own


def _named(host: Host, container: Container) -> Container:
    """Return a container with its name, if Docker's or podman's files have it."""
    name = docker_name(host.read(DOCKER.format(container.id)))
    engine = "docker" if name else container.engine
    if not name:
        name = podman_name(host.read(PODMAN), container.id)
        engine = "podman" if name else engine
    return container._replace(name=name, engine=engine)
