# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each XID, the driver's number for an error, means for the GPU. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Action(enum.Enum):
    """What follows from an XID."""

    IGNORE = "ignore"
    DEGRADE = "degrade"  # Unhealthy, and Healthy again by itself after a recovery period
    FATAL = "fatal"  # Unhealthy until the GPU was reset or the driver loaded again


# Numbers, meanings and "resolution buckets" are those of NVIDIA's Xid catalog for Ampere and later,
# https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (read in the edition that ends
# with 172), and for older GPUs https://docs.nvidia.com/deploy/xid-errors/archive/index.html.
NOT_CORRECTED: Final = 48
ROW_NOT_REPLACED: Final = 64
OFF_THE_BUS: Final = 79
CONTAINED: Final = 94
# The bucket is RESTART_APP, or the application is named as the cause: the GPU itself is fine. A tenant
# can bring these about at will, so they must not take a GPU from others. 45 is what is left of an
# application that ended; 109 has the bucket RESET_GPU, but NVIDIA's device plugin ignores it, and
# drivers from branch 570 on say by the recovery action whether the GPU wants a reset.
APPLICATION: Final = frozenset(
    {8, 11, 13, 25, 31, 43, 45, 60, 68, 69, 80, 109, 137, 139, 141}
    | {39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)}  # copy engines
    | {82, 83, 84, 86, 88, 89, *range(96, 106)}  # video and JPEG decoders, optical flow
)
# What the recovery action says more of, which is read at once then: 154 tells of its change. Errors of
# NVLink 5 are fatal or not by details that NVML does not tell, and all drivers that know them have a
# recovery action.
ASK_DRIVER: Final = frozenset({109, 144, 145, 146, 147, 148, 150, 154})
# The bucket is IGNORE, or nothing at all is to be done to the GPU. 171 and 172 are details of a 48 that
# comes with them.
INFORMATION: Final = frozenset(
    {14, 37, 38, 44, 66, 67, 93, 106, 107, 108, 152, 153}
    | {157, 160, 161}  # resources that can't be retired, and channels: work goes on
    | {162, 163, 164, 165}  # the smoothing of power swings
    | {171, 172}
)
IGNORED: Final = APPLICATION | INFORMATION | ASK_DRIVER
# What the GPU has coped with: the rest of it works, but more of it is a sign of worse. The buckets are
# IGNORE (63, 92, 121) and RESTART_APP (32, for which the catalog blames the PCI bus, and 94).
COPED: Final = {
    32: "a corrupted push buffer",
    63: "a memory row was replaced",
    92: "many corrected memory errors",
    CONTAINED: "a memory error that only one application felt",
    121: "corrected errors on a chip-to-chip link",
}
# What concerns the whole GPU, even where the driver names a MIG instance: the buckets are RESET_GPU,
# RESTART_BM and CHECK_MECHANICALS.
WHOLE: Final = {
    46: "the GPU stopped processing",
    NOT_CORRECTED: "a memory error that could not be corrected",
    54: "its auxiliary power is not connected",
    61: "its microcontroller halted",
    62: "its microcontroller halted",
    ROW_NOT_REPLACED: "a memory row could not be replaced",
    74: "an NVLink failed",
    OFF_THE_BUS: "it has fallen off the bus",
    95: "a memory error that was not contained",
    110: "a security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "the training of a link failed",
    140: "memory errors that could not be corrected",
    143: "it could not be initialised",
    149: "an NVLink is down",
    155: "an NVLink is down",
    156: "a defective part waits for a reset to be retired",
    158: "a fatal timeout",
    167: "a fatal timeout on the PCI bus",
    169: "its microcontroller halted",
}
# What a driver may ask for of its own accord. Number 5 concerns channels to other nodes, not the GPU.
RECOVERIES: Final = {
    1: "the driver asks for a reset of the GPU",
    2: "the driver asks for a reboot of the node",
    3: "the driver asks to end what uses other GPUs through it",
    4: "the driver asks to end what uses the GPU, and for a reset",
    6: "the driver asks for a reset of the GPU's bus",
    7: "the driver asks for a reboot of the node",
}


@dataclass(frozen=True)
class Overrides:
    """XIDs that are to be ignored, and those that are not; None is all of them."""

    disabled: frozenset[int] | None = frozenset()
    enabled: frozenset[int] | None = frozenset()


def action(number: int, overrides: Overrides) -> Action:
    """Return what follows from an XID. What is enabled wins, also where all is disabled.

    A number that nobody knows is fatal, as any is for NVIDIA's device plugin that it does not ignore.
    """
    usual = Action.FATAL
    if number in IGNORED:
        usual = Action.IGNORE
    elif number in COPED:
        usual = Action.DEGRADE
    if overrides.enabled is None or number in overrides.enabled:
        return Action.DEGRADE if usual is Action.IGNORE else usual
    if overrides.disabled is None or number in overrides.disabled:
        return Action.IGNORE
    return usual


def describe(number: int) -> str:
    """Return an XID in words."""
    meaning = {**COPED, **WHOLE}.get(number)
    return f"XID {number} ({meaning})" if meaning else f"XID {number}"
