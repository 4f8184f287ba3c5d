# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a device is shared by MPS: its daemon's settings, the bounds of a share, and what containers get. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from ..._shared._base.dra.names import DEVICE_PLUGIN, DRA
from ..._shared._base.errors import InputError, NodeError
from ..._shared._base.text import json_data
from ..._shared._base.text.json_data import is_whole
from ..._shared._base.text.shown import cut, shown
from ..quantity import MIB
from .paths import PIPE_IN_CONTAINER, ROOT, SHM_IN_CONTAINER, Names, problem_of_root

WAIT, REFUSE, TERMINATE = "wait", "refuse", "terminate"
ON_BUSY: Final = (WAIT, REFUSE, TERMINATE)
PRIORITIES: Final = {"normal": 0, "below-normal": 1}
DRAIN: Final = 30
SMALLEST_SHM: Final = 64 * 1024**2
READ_ONLY, READ_WRITE = "read-only", "read-write"
PIPE_ACCESS: Final = (READ_ONLY, READ_WRITE)
OWNERS: Final = (DEVICE_PLUGIN, DRA)
LESS: Final = "choose less for each share, or allow it with overcommit"
VERSION: Final = 1  # of the JSON; a daemon with another one is as one with other settings
UNITS: Final = {"": 1, "K": 1024, "M": MIB, "G": 1024**3, "T": 1024**4}
SIZE: Final = re.compile(r"([0-9]{1,18})(?:([KMGT])i?B?)?")
MEMORY_WORDS: Final = "bytes, such as 8589934592 or 8GiB, or percent (25%)"
THREADS_WORDS: Final = "a percentage above 0 and up to 100"
VOLTA: Final = (7, 0)
PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%?")


@dataclass(frozen=True)
class Percent:
    """A part of a device, in percent of it."""

    value: Decimal

    @classmethod
    def whole(cls) -> Percent:
        """Return all of it."""
        return cls(Decimal(100))

    def of(self, whole: int) -> Fraction:
        """Return so much of a whole."""
        return Fraction(self.value) * whole / 100

    def __str__(self) -> str:
        return f"{self.value.normalize():f}%"


Memory = int | Percent  # in bytes, or a part of the device's


@dataclass(frozen=True)
class Bounds:
    """What a client may have at most: memory in MiB, threads in percent with one decimal."""

    memory_mib: int
    threads: float


@dataclass(frozen=True)
class Shares:
    """A device in ``replicas`` shares; ``memory`` in bytes and ``threads`` in percent are one's.

    ``most`` is how many of them one container may have together.
    """

    replicas: int
    memory: Fraction
    threads: Fraction
    most: int = 1

    def of(self, count: int) -> Bounds:
        """Return the bounds of a container with so many shares, rounded down to stay within all."""
        if not 1 <= count <= self.most:
            raise NodeError(
                f"{count} shares of one device can't be given to one container",
                cause=f"from 1 to {self.most} are allowed",
            )
        threads = min(self.threads * count, Fraction(100))
        return Bounds(int(self.memory * count / MIB), int(threads * 10) / 10)

    @property
    def default(self) -> Bounds:
        """The bounds of a client that sets none: a client can lower a default, never raise it."""
        return self.of(self.most)


def client_limit(compute_capability: tuple[int, int]) -> int:
    """Return how many clients an MPS server takes on a GPU of this architecture."""
    if compute_capability < VOLTA:
        return 16
    return 48 if compute_capability < (10, 0) else 60


def parse_memory(text: str) -> Memory:
    """Return the bytes or the part of a device that a text stands for."""
    if text.endswith("%"):
        return parse_percent("memory", text)
    match = SIZE.fullmatch(text)
    if match is None:
        raise InputError.of("memory", text, MEMORY_WORDS)
    return int(match[1]) * UNITS[match[2] or ""]


def parse_percent(key: str, text: str) -> Percent:
    """Return a percentage, which must be above 0 and at most 100."""
    match = PERCENT.fullmatch(text)
    value = Decimal(match[1]) if match else Decimal(0)
    if not 0 < value <= 100:
        raise InputError.of(key, text, THREADS_WORDS)
    return Percent(value)


@dataclass(frozen=True)
class Settings:
    """How a device is shared.

    Attributes:
        replicas: The number of shares.
        memory: The memory of a share, None for an equal part.
        threads: The threads of a share, None for an equal part.
        combine: How many shares a container may have together.
        overcommit: Whether the shares may come to more than the device.
        priority: The priority of clients.
        drain: How many seconds clients have to end when the daemon has to.
        on_busy: What happens to clients that are in the way of a change.
        multi_user: Whether clients of all users share a server, None if the program can.
        pipe_access: What containers may do in the pipe directory.
        shm_size: The bytes of the device's /dev/shm, 0 for an equal part of half the node's memory.
        root: The folder of the daemon's files.
        owner: The process that shares the device.
    """

    replicas: int
    memory: Memory | None = None
    threads: Percent | None = None
    combine: int = 1
    overcommit: bool = False
    priority: str = "normal"
    drain: int = DRAIN
    on_busy: str = WAIT
    multi_user: bool | None = None
    pipe_access: str = READ_ONLY
    shm_size: int = 0
    root: str = ROOT
    owner: str = DEVICE_PLUGIN

    def to_json(self) -> str:
        """Return what from_json() reads. Managers of earlier releases know only the device plugin as owner."""
        percent = {k: str(v) for k, v in vars(self).items() if isinstance(v, Percent)}
        data = {"version": VERSION, **vars(self), **percent, "multi_user": bool(self.multi_user)}
        if self.owner == DEVICE_PLUGIN:
            del data["owner"]
        return json.dumps(data, indent=2) + "\n"

    def on(self, compute_capability: tuple[int, int], root: str) -> Settings:
        """Return the settings for a device. Before Volta users don't share a server, unless that is configured."""
        old = self.multi_user is None and compute_capability < VOLTA
        return replace(self, root=root, multi_user=False if old else self.multi_user)

    def suits(self, other: Settings) -> bool:
        """Return whether a control daemon with these settings can serve the others unchanged.

        Priority is set per container, ``drain`` and ``on_busy`` only matter at its end, so they and the owner are
        ignored.
        """
        ignored = ("priority", "drain", "on_busy", "owner")
        return replace(self, **{name: getattr(other, name) for name in ignored}) == other

    def shares(
        self,
        total_memory: int,
        compute_capability: tuple[int, int],
        slices: tuple[int, int] = (1, 1),
    ) -> Shares:
        """Return the shares of a device with so many bytes, and so many slices of those that its GPU has.

        Raises:
            NodeError: if they don't add up, or ``multi_user`` is set and the architecture has no such servers.
        """
        self._check_counts(compute_capability, *slices)
        threads = self.threads.of(100) if self.threads else Fraction(100, self.replicas)
        memory = Fraction(total_memory, self.replicas)
        if self.memory is not None:
            size = self.memory
            memory = size.of(total_memory) if isinstance(size, Percent) else Fraction(size)
        shares = Shares(self.replicas, memory, threads, self.combine)
        self._check_sizes(shares, total_memory)
        return shares

    def _check_counts(self, compute_capability: tuple[int, int], slices: int, of: int) -> None:
        if self.multi_user and compute_capability < VOLTA:
            raise NodeError(
                "multiUser can't be had on this device",
                cause="servers for several users need compute capability 7.0 (Volta), and it has "
                + ".".join(map(str, compute_capability)),
                hint="remove multiUser: true from sharing.mps",
            )
        limit = max(client_limit(compute_capability) * slices // of, 1)
        if not 1 <= self.replicas <= limit:
            part = f", with {slices} of {of} slices" if slices < of else ""
            raise NodeError(
                f"{self.replicas} shares can't be made of this device",
                cause=f"MPS takes from 1 to {limit} clients on its architecture{part}",
                hint="choose fewer replicas",
            )
        if not 1 <= self.combine <= self.replicas:
            expected = f"a whole number from 1 to {self.replicas}"
            raise InputError.of("combine", self.combine, expected)

    def _check_sizes(self, shares: Shares, total_memory: int) -> None:
        if shares.memory < MIB:
            raise InputError.of("memory", str(self.memory or 0), "at least 1 MiB a share")
        if shares.of(1).threads <= 0:
            raise InputError.of("threads", str(self.threads or ""), "at least 0.1 percent a share")
        _check_memory(shares, self.combine, total_memory)
        if not self.overcommit:
            _check_memory(shares, self.replicas, total_memory, LESS)
            if shares.threads * self.replicas > 100:
                raise NodeError(
                    f"{self.replicas} shares have more threads than the device",
                    cause=f"{float(shares.threads * self.replicas):g} percent",
                    hint=LESS,
                )


def _check_memory(shares: Shares, count: int, total: int, hint: str = "") -> None:
    if shares.memory * count > total:
        raise NodeError(
            f"{count} shares have more memory than the device",
            cause=f"{round(shares.memory * count / MIB)} MiB of {total // MIB} MiB",
            hint=hint,
        )


def from_json(text: str) -> Settings:
    """Return the settings in a text.

    Raises:
        NodeError: if it lacks one of them, or has anything else.
    """
    try:
        data = json_data.loads(text)
    except ValueError as error:
        raise NodeError("it is no JSON", cause=cut(str(error))) from error
    if not isinstance(data, dict):
        raise NodeError("it is no JSON object")
    version = data.pop("version", None)
    if not is_whole(version) or version != VERSION:
        raise InputError.of("version", version, str(VERSION))
    data = {"owner": DEVICE_PLUGIN, **data}
    if unknown := sorted(data.keys() - READERS.keys()):
        raise NodeError(f"{shown(unknown[0])} is no setting")
    if missing := sorted(READERS.keys() - data.keys()):
        raise NodeError(f"{missing[0]} is missing")
    return Settings(**{name: read(name, data[name]) for name, read in READERS.items()})


Reader = Callable[[str, Any], Any]


def whole(least: int) -> Reader:
    """Return the reader of a whole number."""

    def read(name: str, value: Any) -> int:
        if not is_whole(value) or value < least:
            raise InputError.of(name, value, f"a whole number from {least} on")
        return int(value)

    return read


def _one_of(*allowed: Any) -> Reader:
    def read(name: str, value: Any) -> Any:
        if (type(value), value) not in [(type(each), each) for each in allowed]:
            raise InputError.of(name, value, f"one of {', '.join(map(str, allowed))}")
        return value

    return read


def _memory(name: str, value: Any) -> Memory | None:
    if is_whole(value) and value > 0:
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
    "replicas": whole(1),
    "memory": _memory,
    "threads": _threads,
    "combine": whole(1),
    "overcommit": _one_of(False, True),
    "priority": _one_of(*PRIORITIES),
    "drain": whole(1),
    "on_busy": _one_of(*ON_BUSY),
    "multi_user": _one_of(False, True),
    "pipe_access": _one_of(*PIPE_ACCESS),
    "shm_size": whole(0),
    "root": _root,
    "owner": _one_of(*OWNERS),
}


class Mount(NamedTuple):
    """A path of the node in a container."""

    inside: str
    outside: str
    read_only: bool = False


@dataclass(frozen=True)
class Part:
    """The variables and mounts of a container with its shares."""

    envs: dict[str, str]
    mounts: tuple[Mount, ...]


@dataclass(frozen=True)
class Offer:
    """A device that is advertised in shares. ``own_shm`` says whether its daemon has a /dev/shm of its own."""

    names: Names
    settings: Settings
    shares: Shares
    own_shm: bool = True

    def part(self, count: int) -> Part:
        """Return what a container with so many shares gets.

        Raises:
            NodeError: if they are too many.
        """
        return part_within(self.shares.of(count), self.names, self.settings, own_shm=self.own_shm)

    def agrees(self, state: Mapping[str, Any]) -> bool:
        """Return whether a manager's state has the limits, users and directory of this offer."""
        limits = state["limits"]
        reported = (state["replicas"], limits["asked"], limits["default"])
        shares = self.shares
        is_same = reported == (shares.replicas, asdict(shares.of(1)), asdict(shares.default))
        reported_client = (state.get("multi_user", False), state.get("clients_pipe"))
        return is_same and reported_client == (bool(self.settings.multi_user), self.names.pipe)


def part_within(bounds: Bounds, names: Names, settings: Settings, *, own_shm: bool) -> Part:
    """Return what a container with these bounds gets."""
    envs = {
        "CUDA_MPS_PIPE_DIRECTORY": PIPE_IN_CONTAINER,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={bounds.memory_mib}M",  # the one device that it sees
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{bounds.threads:g}",
    }
    if priority := PRIORITIES[settings.priority]:
        envs["CUDA_MPS_CLIENT_PRIORITY"] = str(priority)
    shm = names.shm if own_shm else SHM_IN_CONTAINER
    pipe = Mount(PIPE_IN_CONTAINER, names.pipe, settings.pipe_access != READ_WRITE)
    return Part(envs, (pipe, Mount(SHM_IN_CONTAINER, shm)))
