# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Handles: addresses in the arena that every client maps, with the meaning in their bits.

A handle says what it means (kind, GPU, GPU instance, compute instance), so a restarted daemon knows
the handles that it gave out before.
"""

from __future__ import annotations

from typing import NamedTuple

from .codes import INVALID_ARGUMENT, NvError

BASE = 0x4E5600000000
GPU, MIG, GI, CI, EVENTS = 1, 2, 3, 4, 5


class Handle(NamedTuple):
    """What a handle stands for; ids of event sets are in ``gi`` and ``ci``."""

    kind: int
    gpu: int
    gi: int = 0
    ci: int = 0


def encode(handle: Handle) -> int:
    """Return the address."""
    return BASE | (handle.kind << 21 | handle.gpu << 15 | handle.gi << 8 | handle.ci << 4)


def decode(address: int, *kinds: int) -> Handle:
    """Return what an address stands for, which must be one of the kinds."""
    bits = address - BASE
    if not 0 < bits < 1 << 24 or bits & 0xF:
        raise NvError(INVALID_ARGUMENT)
    handle = Handle(bits >> 21, bits >> 15 & 0x3F, bits >> 8 & 0x7F, bits >> 4 & 0xF)
    if handle.kind not in kinds:
        raise NvError(INVALID_ARGUMENT)
    return handle
