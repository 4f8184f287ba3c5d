# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A process that has a GPU open, with its pod, container, or service."""

from __future__ import annotations

import re
import typing as t

from ..._base.text import json_data
from ..._base.text.shown import printable

# Only root makes cgroups outside of users' slices.
UNIT = re.compile(r"/(?!user\.slice/)(?:[^/]+\.slice/)*([^/]+\.service)(?:/|$)")
# Scopes of runc and crun under systemd, folders without it, and containerd's names where systemd is only asked.
CONTAINER = re.compile(
    r"(?:^|[/:])(?:(docker|libpod|crio|cri-containerd|nerdctl)[-:])?([0-9a-f]{64})(?:\.scope)?(?:/|$)"
)
ENGINES = {"docker": "docker", "libpod": "podman"}
SHORT = 12  # characters of an id, as the field shows it
KERNELS = 15  # characters of a program's name that the kernel keeps


class Container(t.NamedTuple):
    """A container: its id, the program that manages it if that is known, and its name."""

    id: str
    engine: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.id[:SHORT]


class User(t.NamedTuple):
    """A process with what runs it; ``unit`` is a service of systemd."""

    pid: int
    program: str
    unit: str = ""
    container: t.Optional[Container] = None
    pod: str = ""

    @property
    def where(self) -> str:
        """Return the pod, container or service of the process, as a phrase."""
        container = f"container {self.container}" if self.container else ""
        return printable((f"pod {self.pod}" if self.pod else "") or container or self.unit)

    def __str__(self) -> str:
        parts = filter(None, (printable(self.program) or "unknown", self.where))
        return f"{self.pid} ({', '.join(parts)})"


def unit_of(paths: t.Iterable[str]) -> str:
    """Return the service that a process belongs to, by its cgroup paths; empty for none."""
    matches = (UNIT.match(path) for path in paths)
    return next((match[1] for match in matches if match), "")


def container_of(paths: t.Iterable[str]) -> t.Optional[Container]:
    """Return the container that a process is in, without its name."""
    for path in paths:
        match = CONTAINER.search(path)
        if match:
            return Container(match[2], ENGINES.get(match[1] or "", ""))
    return None


def docker_name(config: t.Optional[str]) -> str:
    """Return a container's name from Docker's file about it, empty if it has none."""
    try:
        return str(json_data.loads(config or "{}").get("Name", "")).lstrip("/")
    except (ValueError, AttributeError):
        return ""


def podman_name(listed: t.Optional[str], container: str) -> str:
    """Return a container's name from podman's list, empty if it is not in it."""
    try:
        containers = [load for load in json_data.loads(listed or "[]") if load["id"] == container]
        return str(containers[0]["names"][0]) if containers else ""
    except json_data.MISREAD:
        return ""
