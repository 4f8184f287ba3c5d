# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of ``sharing.mps`` that NVIDIA's schema does not have. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import shown
from ..model.mps import settings as mps
from .strict_yaml import ConfigError, Found, Value

SECTION: Final = "sharing.mps"
KEYS: Final = (
    *(f"{SECTION}.{key}" for key in ("onBusy", "drain", "multiUser", "pipeAccess", "shmSize")),
    *(
        f"{SECTION}.resources[].{key}"
        for key in ("memory", "threads", "combine", "overcommit", "priority")
    ),
)
LONGEST_DRAIN: Final = 86400
NEWEST: Final = (12, 0)  # no architecture takes more clients
LARGE: Final = 2**60
SHM_SIZES: Final = "bytes, such as 8589934592 or 8GiB, 64MiB at least"

Read = TypeVar("Read")


def settings(found: Found, at: str, replicas: int, one_each: bool | None) -> mps.Settings:
    """Return the settings of an entry. ``one_each``: failRequestsGreaterThanOne, None if not given."""
    drain, on_busy = found.get(f"{SECTION}.drain"), found.get(f"{SECTION}.onBusy")
    priority, access = found.get(f"{at}.priority"), found.get(f"{SECTION}.pipeAccess")
    asked = mps.Settings(
        replicas,
        _size(found.get(f"{at}.memory"), mps.parse_memory, mps.MEMORY_WORDS),
        _size(found.get(f"{at}.threads"), partial(mps.parse_percent, "threads"), mps.THREADS_WORDS),
        _combine(found.get(f"{at}.combine"), replicas, one_each),
        bool(found.flag(f"{at}.overcommit")),
        priority.one_of(tuple(mps.PRIORITIES)) if priority else "normal",
        drain.whole(LONGEST_DRAIN, "seconds, ") if drain else mps.DRAIN,
        on_busy.one_of(mps.ON_BUSY) if on_busy else mps.WAIT,
        bool(found.flag(f"{SECTION}.multiUser")),
        access.one_of(mps.PIPE_ACCESS) if access else mps.READ_ONLY,
        _shm_size(found.get(f"{SECTION}.shmSize")),
    )
    total = asked.memory * asked.replicas if isinstance(asked.memory, int) else LARGE
    try:
        asked.shares(total, NEWEST)
    except NodeError as error:  # it adds up on no device at all
        raise ConfigError(f"{found[at].where}: {at}: {error}") from error
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
    found: mps.Memory | None = _size(value, mps.parse_memory, SHM_SIZES)
    if value is None or found is None:
        return 0
    if isinstance(found, mps.Percent) or not mps.SMALLEST_SHM <= found <= LARGE:
        raise value.invalid(SHM_SIZES)
    return found
