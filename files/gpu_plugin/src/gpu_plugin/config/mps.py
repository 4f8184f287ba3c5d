# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of ``sharing.mps`` that NVIDIA's schema does not have. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import shown
from ..mps.settings import (
    DRAIN,
    ON_BUSY,
    PIPE_ACCESS,
    PRIORITIES,
    READ_ONLY,
    SMALLEST_SHM,
    WAIT,
    Settings,
)
from ..mps.shares import (
    MEMORY_WORDS,
    THREADS_WORDS,
    Memory,
    Percent,
    parse_memory,
    parse_percent,
)
from .strict_yaml import ConfigError, Value, is_whole

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

Found = Mapping[str, Value]
Read = TypeVar("Read")


def settings(found: Found, at: str, replicas: int, one_each: bool | None) -> Settings:
    """Return the settings of an entry. ``one_each``: failRequestsGreaterThanOne, None if not given."""
    asked = Settings(
        replicas,
        _size(found.get(f"{at}.memory"), parse_memory, MEMORY_WORDS),
        _size(found.get(f"{at}.threads"), _threads, THREADS_WORDS),
        _combine(found.get(f"{at}.combine"), replicas, one_each),
        _flag(found.get(f"{at}.overcommit")),
        _one_of(found.get(f"{at}.priority"), tuple(PRIORITIES), "normal"),
        _drain(found.get(f"{SECTION}.drain")),
        _one_of(found.get(f"{SECTION}.onBusy"), ON_BUSY, WAIT),
        _flag(found.get(f"{SECTION}.multiUser")),
        _one_of(found.get(f"{SECTION}.pipeAccess"), PIPE_ACCESS, READ_ONLY),
        _shm_size(found.get(f"{SECTION}.shmSize")),
    )
    _check(found, at, asked)
    return asked


def _check(found: Found, at: str, asked: Settings) -> None:
    """Refuse what adds up on no device at all."""
    total = asked.memory * asked.replicas if isinstance(asked.memory, int) else LARGE
    try:
        asked.shares(total, NEWEST)
    except NodeError as error:
        raise ConfigError(f"{found[at].where}: {at}: {error}") from error


def _size(value: Value | None, read: Callable[[str], Read], expected: str) -> Read | None:
    if value is None or value.data is None:
        return None
    data: Any = value.data
    if isinstance(data, bool) or not isinstance(data, (int, float, str)) or data in ("", 0):
        raise _invalid(value, expected)
    try:
        return read(str(data))
    except NodeError as error:
        raise _invalid(value, expected) from error


def _threads(text: str) -> Percent:
    return parse_percent("threads", text)


def _combine(value: Value | None, replicas: int, one_each: bool | None) -> int:
    if value is None or value.data is None:
        return replicas if one_each is False else 1
    if one_each:
        raise ConfigError(
            f"{value.where}: {value.path}: {shown(value.data)} is not valid",
            cause="failRequestsGreaterThanOne is set, which allows one share a container",
        )
    if isinstance(value.data, bool):
        return replicas if value.data else 1
    if not is_whole(value.data) or not 1 <= value.data <= replicas:
        raise _invalid(value, f"true, false or a whole number from 1 to {replicas}")
    return value.data


def _flag(value: Value | None) -> bool:
    if value is None or value.data is None:
        return False
    if not isinstance(value.data, bool):
        raise _invalid(value, "true or false")
    return value.data


def _one_of(value: Value | None, allowed: Sequence[str], default: str) -> str:
    if value is None or value.data is None:
        return default
    if value.data not in allowed:
        raise _invalid(value, f"one of {', '.join(allowed)}")
    return str(value.data)


def _drain(value: Value | None) -> int:
    if value is None or value.data is None:
        return DRAIN
    if not is_whole(value.data) or not 1 <= value.data <= LONGEST_DRAIN:
        raise _invalid(value, f"seconds, a whole number from 1 to {LONGEST_DRAIN}")
    return value.data


def _invalid(value: Value, expected: str) -> ConfigError:
    return ConfigError(
        f"{value.where}: {value.path}: {shown(value.data)} is not valid",
        cause=f"expected {expected}",
    )


def _shm_size(value: Value | None) -> int:
    found: Memory | None = _size(value, parse_memory, SHM_SIZES)
    if value is None or found is None:
        return 0
    if isinstance(found, Percent) or not SMALLEST_SHM <= found <= LARGE:
        raise _invalid(value, SHM_SIZES)
    return found
