# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a share of a device is: memory, threads, and how many shares there may be. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from .._shared._core.errors import InputError, NodeError

MIB: Final = 1024**2
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
        """Return what a container with so many shares may have; rounded down, to stay within all."""
        if not 1 <= count <= self.most:
            raise NodeError(
                f"{count} shares of one device can't be given to one container",
                cause=f"from 1 to {self.most} are allowed",
            )
        threads = min(self.threads * count, Fraction(100))
        return Bounds(int(self.memory * count / MIB), int(threads * 10) / 10)

    @property
    def default(self) -> Bounds:
        """What bounds a client that says nothing: a client can lower a default, never raise it."""
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
    found = SIZE.fullmatch(text)
    if found is None:
        raise InputError.of("memory", text, MEMORY_WORDS)
    return int(found[1]) * UNITS[found[2] or ""]


def parse_percent(key: str, text: str) -> Percent:
    """Return a percentage, which must be above 0 and at most 100."""
    found = PERCENT.fullmatch(text)
    value = Decimal(found[1]) if found else Decimal(0)
    if not 0 < value <= 100:
        raise InputError.of(key, text, THREADS_WORDS)
    return Percent(value)
