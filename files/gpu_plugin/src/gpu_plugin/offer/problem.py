# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why a GPU or a device must not be given to anybody. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

# A GPU, or an instance of it: the UUID and the ids of the GPU and compute instance.
Place = tuple[str, int | None, int | None]
Faults = Mapping[Place, str]  # what XIDs and GPUs reported, in words


class Kind(Enum):
    """What a problem is about, whatever its words are."""

    NO_DRIVER = "no_driver"
    SLOW = "slow"  # NVML has not answered for it for a while
    UNREADABLE = "unreadable"
    LOST = "lost"  # off the bus, or in want of a reset
    FAULT = "fault"  # an XID, or what the GPU says of its memory
    NO_CAPABILITY = "no_capability"
    UNSHARABLE = "unsharable"  # not as MPS is asked to
    MPS = "mps"  # its MPS daemon is not ready
    NO_CDI = "no_cdi"  # no container runtime knows it
    NO_CHANNEL = "no_channel"  # a required IMEX channel is missing


@dataclass(frozen=True)
class Problem:
    """A problem in words for people, and what it is about."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text
