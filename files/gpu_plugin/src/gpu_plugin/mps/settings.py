# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the configuration asks of a device's MPS daemon, and how its manager is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from .paths import Names, Part, part
from .shares import Memory, Percent, Shares, plan

WAIT, REFUSE, TERMINATE = "wait", "refuse", "terminate"
ON_BUSY: Final = (WAIT, REFUSE, TERMINATE)
PRIORITIES: Final = {"normal": 0, "below-normal": 1}
DRAIN: Final = 30
READ_ONLY, READ_WRITE = "read-only", "read-write"
PIPE_ACCESS: Final = (READ_ONLY, READ_WRITE)
ROOT_VARIABLE: Final = "GPU_MPS_ROOT"
BUSY_VARIABLE: Final = "GPU_MPS_ON_BUSY"


@dataclass(frozen=True)
class Settings:
    """How a device is shared. ``memory`` and ``threads`` are one share's, None: an equal part.

    ``combine`` is how many shares a container may have together, ``drain`` how many seconds clients
    have to end when the daemon has to, and ``on_busy`` what holds until then. With ``multi_user``
    clients of all users share a server. ``pipe_access`` is what containers may do in the pipe
    directory, ``shm_size`` the bytes of the device's /dev/shm, 0: an equal part of half the memory.
    """

    replicas: int
    memory: Memory | None = None
    threads: Percent | None = None
    combine: int = 1
    overcommit: bool = False
    priority: str = "normal"
    drain: int = DRAIN
    on_busy: str = WAIT
    multi_user: bool = False
    pipe_access: str = READ_ONLY
    shm_size: int = 0

    def shares(self, total_memory: int, compute_capability: tuple[int, int]) -> Shares:
        """Return the shares of a device with so many bytes. NodeError: they don't add up."""
        return plan(
            self.replicas,
            total_memory,
            compute_capability,
            memory=self.memory,
            threads=self.threads,
            most=self.combine,
            overcommit=self.overcommit,
            multi_user=self.multi_user,
        )


@dataclass(frozen=True)
class Offer:
    """A device that is offered in shares. ``own_shm``: its daemon has a shm of its own."""

    names: Names
    settings: Settings
    shares: Shares
    own_shm: bool = True

    def part(self, count: int) -> Part:
        """Return what a container with so many shares gets. NodeError: they are too many."""
        writable = self.settings.pipe_access == READ_WRITE
        found = part(self.names, self.shares, count, own_shm=self.own_shm, writable=writable)
        if priority := PRIORITIES[self.settings.priority]:
            return Part({**found.envs, "CUDA_MPS_CLIENT_PRIORITY": str(priority)}, found.mounts)
        return found

    def variables(self) -> dict[str, str]:
        """Return the environment of the manager."""
        asked = self.settings
        return {
            "GPU_MPS_REPLICAS": str(asked.replicas),
            "GPU_MPS_MEMORY": str(asked.memory or ""),
            "GPU_MPS_THREADS": str(asked.threads or ""),
            "GPU_MPS_COMBINE": str(asked.combine),
            "GPU_MPS_OVERCOMMIT": str(asked.overcommit).lower(),
            "GPU_MPS_DRAIN": str(asked.drain),
            "GPU_MPS_MULTI_USER": "true" if asked.multi_user else "",
            "GPU_MPS_PIPE_ACCESS": "" if asked.pipe_access == READ_ONLY else asked.pipe_access,
            "GPU_MPS_SHM_SIZE": str(asked.shm_size or ""),
            BUSY_VARIABLE: asked.on_busy,
            ROOT_VARIABLE: self.names.root,
        }

    def agrees(self, state: Mapping[str, Any]) -> bool:
        """Tell whether a manager's state names the limits, users and directory that are asked for."""
        limits = state["limits"]
        told = (state["replicas"], limits["asked"], limits["default"])
        shares = self.shares
        same = told == (shares.replicas, asdict(shares.of(1)), asdict(shares.default))
        found = (state.get("multi_user", False), state.get("clients_pipe"))
        return same and found == (self.settings.multi_user, self.names.pipe)


def write(variables: Mapping[str, str]) -> str:
    """Return the text of an environment file as systemd reads it."""
    lines = (f"{name}={value}\n" for name, value in variables.items() if value)
    return "# Written by gpu-plugin from sharing.mps of its configuration.\n" + "".join(lines)


def read(text: str) -> dict[str, str]:
    """Return the variables of such a text."""
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)
