# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why a GPU or a device must not be given to anybody. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a problem is about, whatever its words are."""

    NO_DRIVER = "no_driver"
    UNREADABLE = "unreadable"
    LOST = "lost"  # off the bus, or in want of a reset
    FAULT = "fault"  # an XID, or what the GPU says of its memory
    NO_CAPABILITY = "no_capability"
    UNSHARABLE = "unsharable"  # not as MPS is asked to
    MPS = "mps"  # its MPS daemon is not ready


@dataclass(frozen=True)
class Problem:
    """A problem in words for people, and what it is about."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text
