# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the configuration asks of a device's MPS daemon, and how its manager is told. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from .._shared._core.errors import InputError, NodeError
from .._shared._core.text import json_data
from .._shared._core.text.shown import cut, shown
from .paths import ROOT, Names, Part, part, problem_of_root
from .shares import MEMORY_WORDS, THREADS_WORDS, Memory, Percent, Shares, parse_percent, plan

WAIT, REFUSE, TERMINATE = "wait", "refuse", "terminate"
ON_BUSY: Final = (WAIT, REFUSE, TERMINATE)
PRIORITIES: Final = {"normal": 0, "below-normal": 1}
DRAIN: Final = 30
SMALLEST_SHM: Final = 64 * 1024**2
READ_ONLY, READ_WRITE = "read-only", "read-write"
PIPE_ACCESS: Final = (READ_ONLY, READ_WRITE)
VERSION: Final = 1  # of the JSON; a manager with another one is as one with other settings


@dataclass(frozen=True)
class Settings:
    """How a device is shared. ``memory`` and ``threads`` are one share's, None: an equal part.

    ``combine`` is how many shares a container may have together, ``drain`` how many seconds clients
    have to end when the daemon has to, and ``on_busy`` what holds until then. With ``multi_user``
    clients of all users share a server. ``pipe_access`` is what containers may do in the pipe
    directory, ``shm_size`` the bytes of the device's /dev/shm, 0: an equal part of half the memory.
    The daemon's files are below ``root``.
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
    root: str = ROOT

    def to_json(self) -> str:
        """Return what from_json() reads."""
        told = asdict(self) | {
            name: str(value) if isinstance(value, Percent) else value
            for name, value in (("memory", self.memory), ("threads", self.threads))
        }
        return json.dumps({"version": VERSION, **told}, indent=2) + "\n"

    def suits(self, other: Settings) -> bool:
        """Tell whether a manager with these is one with the others: containers have the priority."""
        return replace(self, priority=other.priority) == other

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


def from_json(text: str) -> Settings:
    """Return the settings in a text. NodeError: it has not each of them, or anything else."""
    try:
        data = json_data.loads(text)
    except ValueError as error:
        raise NodeError("it is no JSON", cause=cut(str(error))) from error
    if not isinstance(data, dict):
        raise NodeError("it is no JSON object")
    version = data.pop("version", None)
    if not _is_whole(version) or version != VERSION:
        raise InputError.of("version", version, str(VERSION))
    if unknown := sorted(data.keys() - READERS.keys()):
        raise NodeError(f"{shown(unknown[0])} is no setting")
    if missing := sorted(READERS.keys() - data.keys()):
        raise NodeError(f"{missing[0]} is missing")
    return Settings(**{name: read(name, data[name]) for name, read in READERS.items()})


Reader = Callable[[str, Any], Any]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(least: int) -> Reader:
    def read(name: str, value: Any) -> int:
        if not _is_whole(value) or value < least:
            raise InputError.of(name, value, f"a whole number from {least} on")
        return int(value)

    return read


def _one_of(*allowed: Any) -> Reader:
    def read(name: str, value: Any) -> Any:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise InputError.of(name, value, f"one of {', '.join(map(str, allowed))}")
        return value

    return read


def _memory(name: str, value: Any) -> Memory | None:
    if _is_whole(value) and value > 0:
        return int(value)
    if (isinstance(value, str) and value.endswith("%")) or value is None:
        return _threads(name, value)
    raise InputError.of(name, value, MEMORY_WORDS)


def _threads(name: str, value: Any) -> Percent | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError.of(name, value, THREADS_WORDS)
    return parse_percent(name, value)


def _root(name: str, value: Any) -> str:
    if problem := problem_of_root(value) if isinstance(value, str) else "a path":
        raise InputError.of(name, value, problem)
    return str(value)


READERS: Final[Mapping[str, Reader]] = {
    "replicas": _whole(1),
    "memory": _memory,
    "threads": _threads,
    "combine": _whole(1),
    "overcommit": _one_of(False, True),
    "priority": _one_of(*PRIORITIES),
    "drain": _whole(1),
    "on_busy": _one_of(*ON_BUSY),
    "multi_user": _one_of(False, True),
    "pipe_access": _one_of(*PIPE_ACCESS),
    "shm_size": _whole(0),
    "root": _root,
}


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

    def agrees(self, state: Mapping[str, Any]) -> bool:
        """Tell whether a manager's state names the limits, users and directory that are asked for."""
        limits = state["limits"]
        told = (state["replicas"], limits["asked"], limits["default"])
        shares = self.shares
        same = told == (shares.replicas, asdict(shares.of(1)), asdict(shares.default))
        found = (state.get("multi_user", False), state.get("clients_pipe"))
        return same and found == (self.settings.multi_user, self.names.pipe)
