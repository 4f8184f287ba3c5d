# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of the configuration that are lists: how devices are shared, and the names of resources. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text.json_data import is_whole
from .._shared._base.text.shown import cut, shown
from ..model.mps import settings as mps
from ..model.mps.paths import ROOT, problem_of_root
from ..model.mps.settings import Settings
from .schema import Key, absolute
from .strict_yaml import ConfigError, Found, Value, invalid

VENDOR: Final = "nvidia.com"
GPU_RESOURCE: Final = f"{VENDOR}/gpu"
LONGEST: Final = 63
LONGEST_PATTERN: Final = 256  # NVML's names have 96 characters at most
LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN: Final = re.compile(rf"{LABEL}(\.{LABEL})*")
MOST_REPLICAS: Final = 4096
ALL: Final = "all"
EACH: Final = "each device"
UUID: Final = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
INDEX: Final = "[0-9]{1,9}"
REFERENCE: Final = re.compile(
    rf"{INDEX}(:{INDEX})?|GPU-{UUID}|MIG-{UUID}|MIG-GPU-{UUID}/{INDEX}/{INDEX}"
)
REFERENCES: Final = (
    "all, a number of devices, or a list of indices (0, 0:1) and UUIDs (GPU-..., MIG-...)"
)

MPS: Final = "sharing.mps"
# Keys of it that NVIDIA's schema does not have.
MPS_KEYS: Final = (
    *(f"{MPS}.{key}" for key in ("onBusy", "drain", "multiUser", "pipeAccess", "shmSize")),
    *(
        f"{MPS}.resources[].{key}"
        for key in ("memory", "threads", "combine", "overcommit", "priority")
    ),
)
LONGEST_DRAIN: Final = 86400
NEWEST: Final = (12, 0)  # no architecture takes more clients
LARGE: Final = 2**60
SHM_SIZES: Final = "bytes, such as 8589934592 or 8GiB, 64MiB at least"

Read = TypeVar("Read")
KEYS: Final = (
    *(f"resources.{kind}[].{key}" for kind in ("gpus", "mig") for key in ("pattern", "name")),
    *(
        f"sharing.{strategy}.{key}"
        for strategy in ("timeSlicing", "mps")
        for key in (
            "renameByDefault",
            "failRequestsGreaterThanOne",
            *(f"resources[].{part}" for part in ("name", "rename", "devices", "replicas")),
        )
    ),
    "sharing.timeSlicing.resources[].timeSlice",
    *MPS_KEYS,
)
TIME_SLICES: Final = ("default", "short", "medium", "long")  # by the driver's numbers


@dataclass(frozen=True)
class Rule:
    """Devices whose product name or MIG profile matches ``pattern`` are advertised as ``name``."""

    pattern: str
    name: str

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches the pattern; a star is any text."""
        first, *parts = self.pattern.split("*")
        if not parts:
            return text == first
        if not text.startswith(first):
            return False
        # The first place that fits leaves the most to what follows, so none is ever tried again.
        at = len(first)
        for part in parts[:-1]:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return text.endswith(parts[-1]) and at + len(parts[-1]) <= len(text)


@dataclass(frozen=True)
class Naming:
    """The user's rules, of which the first that matches counts. Without one the usual names are used."""

    gpus: tuple[Rule, ...] = ()
    mig: tuple[Rule, ...] = ()


def qualified(name: str) -> str:
    """Return a resource's full name.

    Raises:
        NodeError: if it is not valid.
    """
    full = name if name.startswith(f"{VENDOR}/") else f"{VENDOR}/{name}"
    if len(full) > LONGEST:
        cause = f"{cut(full)} has more than {LONGEST} characters"
    elif not SUBDOMAIN.fullmatch(full.partition("/")[2]):
        cause = f"expected a name of {VENDOR}: lower-case letters, digits, dashes and dots"
    else:
        return full
    raise NodeError(f"{shown(name)} is not valid", cause=cause)


def resource_name(profile: str) -> str:
    """Return the resource of a MIG profile: 1g.10gb+me becomes nvidia.com/mig-1g.10gb.me."""
    return f"{VENDOR}/mig-{profile.replace('+', '.')}"


def named(rules: Iterable[Rule], text: str) -> str:
    """Return the name of the first rule that matches, empty if none does."""
    return next((rule.name for rule in rules if rule.matches(text)), "")


@dataclass(frozen=True)
class Share:
    """Devices of a resource that several containers use at once, and what they are advertised as.

    ``first`` is how many of them, ``devices`` are indices and UUIDs; without either it is all.
    Containers take turns of ``time_slice``, or with ``mps`` use a device at the same time.
    """

    name: str
    replicas: int
    offered_as: str
    first: int | None = None
    devices: tuple[str, ...] = ()
    mps: Settings | None = None
    time_slice: str = ""


def _mps_root(where: str, path: str) -> str:
    if path and (problem := problem_of_root(absolute(where, path))):
        raise invalid(where, path, problem)
    return path or ROOT


@dataclass(frozen=True)
class Sharing:
    """How devices are shared. ``one_each``: a container may have one share in time only."""

    shares: tuple[Share, ...] = ()
    one_each: bool = False
    allocation_policy: str = Key(
        "flags.plugin.sharedDevicesAllocationPolicy",
        "distributed",
        "whether shares are spread over GPUs, or fill one after the other",
        allowed=("distributed", "packed"),
    ).field()
    mps_root: str = Key(
        "flags.mpsRoot",
        "",
        "where the files of MPS control daemons are on the host (default: /run/gpu-node/mps)",
        read=_mps_root,
    ).field()


def naming(values: Found) -> Naming:
    """Return the rules of the section resources."""
    return Naming(*(tuple(_rules(values, f"resources.{kind}")) for kind in ("gpus", "mig")))


def _rules(values: Found, path: str) -> Iterator[Rule]:
    for at in values.items_of(path):
        pattern = values.required(at, "pattern")
        if len(pattern.text()) > LONGEST_PATTERN:
            raise pattern.invalid(f"at most {LONGEST_PATTERN} characters")
        yield Rule(pattern.text(), _name(values.required(at, "name")))


def sharing(values: Found) -> Sharing:
    """Return the sharing of the section of that name. Of two strategies MPS takes its devices first.

    Devices that time-slicing names as well are noted: in NVIDIA's plugin it gives way to MPS altogether.
    """
    by_mps = _disjoint(values, _strategy(values, "mps"))
    shares = [share for _at, share in by_mps]
    for at, share in _disjoint(values, _strategy(values, "timeSlicing")):
        taken = [other for other in shares if other.mps and other.name == share.name]
        if both := _both(share, taken):
            place = f"{values[at].where}: {at}: {cut(both)} of {share.name}"
            values.notes.append(f"{place} is shared by MPS, which wins")
        if both != EACH:
            shares.append(share)
    one_each = values.flag("sharing.timeSlicing.failRequestsGreaterThanOne")
    return Sharing(tuple(shares), bool(one_each))


def _disjoint(values: Found, entries: Iterable[tuple[str, Share]]) -> list[tuple[str, Share]]:
    """Return the entries of a strategy; an error if two of them name the same devices."""
    checked: list[tuple[str, Share]] = []
    by_name: dict[str, list[Share]] = {}
    for at, share in entries:
        before = by_name.setdefault(share.name, [])
        if both := _both(share, before):
            raise ConfigError(
                f"{values[at].where}: {at}: {cut(both)} of {share.name} is shared twice",
                hint="name other devices in each entry",
            )
        before.append(share)
        checked.append((at, share))
    return checked


def _both(share: Share, before: Iterable[Share]) -> str:
    """Return which devices of a share are taken by those before it, as far as that is certain."""
    if any(not share.devices and share.first is None for share in before):
        return EACH
    taken = {each for share in before for each in share.devices}
    return ", ".join(each for each in share.devices if each in taken)


def _strategy(values: Found, strategy: str) -> Iterator[tuple[str, Share]]:
    section = f"sharing.{strategy}"
    rename = values.flag(f"{section}.renameByDefault")
    one_each = values.flag(f"{section}.failRequestsGreaterThanOne")
    listed = f"{section}.resources"
    items = list(values.items_of(listed))
    paths = [path for path in values if path.startswith(f"{section}.")]
    if paths and not items:
        raise ConfigError(
            f"{values[paths[0]].where}: {listed} is missing or empty",
            cause="expected one or more mappings with name and replicas",
        )
    for at in items:
        value = values.required(at, "name")
        name = offered_as = _name(value)
        replicas = values.required(at, "replicas").whole(MOST_REPLICAS)
        if renamed := values.get(f"{at}.rename"):
            offered_as = _name(renamed)
        elif rename:
            offered_as = _name(value, ".shared")
        share = Share(name, replicas, offered_as, *_devices(values.get(f"{at}.devices")))
        if strategy == "mps":
            share = replace(share, mps=mps_settings(values, at, replicas, one_each))
        elif turns := values.get(f"{at}.timeSlice"):
            share = replace(share, time_slice=turns.one_of(TIME_SLICES))
        yield at, share


def _devices(value: Value | None) -> tuple[int | None, tuple[str, ...]]:
    """Return how many devices are shared, or which; neither for all."""
    if value is None or value.data == ALL:
        return None, ()
    data = value.data
    if is_whole(data) and data > 0:
        return data, ()
    if not isinstance(data, list) or not data:
        raise value.invalid(REFERENCES)
    references = []
    for item in data:
        text = str(item) if is_whole(item) else item
        if not isinstance(text, str) or not REFERENCE.fullmatch(text):
            raise value.invalid(REFERENCES, item)
        references.append(text)
    return None, tuple(dict.fromkeys(references))


def _name(value: Value, suffix: str = "") -> str:
    name = value.text() + suffix
    try:
        return qualified(name)
    except NodeError as error:
        raise ConfigError(f"{value.where}: {value.path}: {error}") from error


def mps_settings(values: Found, at: str, replicas: int, one_each: bool | None) -> Settings:
    """Return the settings of an entry. ``one_each``: failRequestsGreaterThanOne, None if not given."""
    drain, on_busy = values.get(f"{MPS}.drain"), values.get(f"{MPS}.onBusy")
    priority, access = values.get(f"{at}.priority"), values.get(f"{MPS}.pipeAccess")
    asked = Settings(
        replicas,
        _size(values.get(f"{at}.memory"), mps.parse_memory, mps.MEMORY_WORDS),
        _size(
            values.get(f"{at}.threads"), partial(mps.parse_percent, "threads"), mps.THREADS_WORDS
        ),
        _combine(values.get(f"{at}.combine"), replicas, one_each),
        bool(values.flag(f"{at}.overcommit")),
        priority.one_of(tuple(mps.PRIORITIES)) if priority else "normal",
        drain.whole(LONGEST_DRAIN, "seconds, ") if drain else mps.DRAIN,
        on_busy.one_of(mps.ON_BUSY) if on_busy else mps.WAIT,
        values.flag(f"{MPS}.multiUser"),
        access.one_of(mps.PIPE_ACCESS) if access else mps.READ_ONLY,
        _shm_size(values.get(f"{MPS}.shmSize")),
    )
    total = asked.memory * asked.replicas if isinstance(asked.memory, int) else LARGE
    try:
        asked.shares(total, NEWEST)
    except NodeError as error:  # it adds up on no device at all
        raise ConfigError(f"{values[at].where}: {at}: {error}") from error
    return asked


def _size(value: Value | None, read: Callable[[str], Read], expected: str) -> Read | None:
    if value is None:
        return None
    if value.data == 0:
        raise value.invalid(expected)
    try:
        return read(str(value.data))
    except NodeError as error:
        raise value.invalid(expected) from error


def _combine(value: Value | None, replicas: int, one_each: bool | None) -> int:
    if value is None:
        return replicas if one_each is False else 1
    if one_each:
        raise ConfigError(
            f"{value.where}: {value.path}: {shown(value.data)} is not valid",
            cause="failRequestsGreaterThanOne is set, which allows one share a container",
        )
    if isinstance(value.data, bool):
        return replicas if value.data else 1
    return value.whole(replicas, "true, false or ")


def _shm_size(value: Value | None) -> int:
    size: mps.Memory | None = _size(value, mps.parse_memory, SHM_SIZES)
    if value is None or size is None:
        return 0
    if isinstance(size, mps.Percent) or not mps.SMALLEST_SHM <= size <= LARGE:
        raise value.invalid(SHM_SIZES)
    return size
