# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What this machine has left for nodes: too little of it shows in a node as anything but what it is."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .paths import CACHE
from .podman import FILES, podman

INSTANCES = "fs.inotify.max_user_instances"
MIB = 1024**2


@dataclass(frozen=True)
class Room:
    """Inotify instances of the user, open files of all and of a process, MiB of memory and of a disk."""

    instances: int
    files: int
    descriptors: int
    memory: int
    disk: int


# What one that is brought up and runs containers takes, with its snapshot: 13 instances, 262 files, 192 MiB, 1 GiB.
NODE = Room(instances=16, files=1000, descriptors=FILES, memory=500, disk=2000)


def lacking(free: Room, nodes: int, used: int = 0) -> list[str]:
    """Return what there is too little of for so many nodes, and what to do; ``used`` are inotify instances."""
    found = []
    if free.instances < (needed := NODE.instances * nodes):
        found.append(
            f"{free.instances} inotify instances are free and {needed} are needed:"
            f" sysctl --write {INSTANCES}={max(512, used + needed)}"
        )
    if free.files < (needed := NODE.files * nodes):
        found.append(
            f"{free.files} files can be opened and {needed} are needed: raise fs.file-max by sysctl"
        )
    if free.descriptors < NODE.descriptors:
        found.append(
            f"a process may open {free.descriptors} files and {NODE.descriptors} are needed:"
            f" ulimit -Hn {NODE.descriptors}"
        )
    if free.memory < (needed := NODE.memory * nodes):
        found.append(f"{free.memory} MiB of memory are free and {needed} are needed")
    if free.disk < (needed := NODE.disk * nodes):
        found.append(f"{free.disk} MiB of disk are free and {needed} are needed")
    return found


def check(nodes: int = 1) -> None:
    """End the tool where there is too little for so many nodes."""
    used = sum(instances())
    if found := lacking(free(used), nodes, used):
        sys.exit(f"gpunode: no room for {nodes} more nodes: {'; '.join(found)}")


def free(used: int) -> Room:
    """Return what there is, where so many inotify instances are used."""
    limit = int(Path("/proc/sys", INSTANCES.replace(".", "/")).read_text())
    opened, _unused, most = map(int, Path("/proc/sys/fs/file-nr").read_text().split())
    (available,) = (
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    CACHE.mkdir(parents=True, exist_ok=True)
    _soft, most_of_a_process = resource.getrlimit(resource.RLIMIT_NOFILE)
    images = podman("info", "--format", "{{.Store.GraphRoot}}")
    return Room(
        instances=limit - used,
        files=most - opened,
        descriptors=most_of_a_process if most_of_a_process != resource.RLIM_INFINITY else most,
        memory=available // 1024,
        disk=min(shutil.disk_usage(one).free for one in (CACHE, images)) // MIB,
    )


def instances() -> Iterator[int]:
    """Yield how many inotify instances each process of this user has."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):  # it has ended
            if folder.stat().st_uid == os.geteuid():
                yield sum("inotify" in _target(one) for one in folder.iterdir())


def _target(path: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""
