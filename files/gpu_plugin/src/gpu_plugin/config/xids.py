# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each XID, the driver's number for an error, means for the GPU. Pure."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from .strict_yaml import invalid

DISABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENABLE: Final = "DP_ENABLE_HEALTHCHECKS"
HIGHEST: Final = 9999


class Action(enum.Enum):
    """What follows from an XID."""

    IGNORE = "ignore"
    DEGRADE = "degrade"  # Unhealthy, and Healthy again by itself after a recovery period
    FATAL = "fatal"  # Unhealthy until the GPU was reset or the driver loaded again


NOT_CORRECTED: Final = 48
ROW_NOT_REPLACED: Final = 64
CONTAINED: Final = 94
# What an application did to itself; the GPU is fine.
APPLICATION: Final = frozenset({13, 31, 43, 45, 68, 109})
# What the GPU has coped with: the rest of it works, but more of it is a sign of worse.
COPED: Final = {
    32: "a corrupted push buffer",
    63: "a memory row was replaced",
    92: "many corrected memory errors",
    CONTAINED: "a memory error that only one application felt",
    121: "corrected errors on a chip-to-chip link",
}
# What concerns the whole GPU, even where the driver names a MIG instance.
WHOLE: Final = {
    46: "the GPU stopped processing",
    NOT_CORRECTED: "a memory error that could not be corrected",
    61: "its microcontroller halted",
    62: "its microcontroller halted",
    ROW_NOT_REPLACED: "a memory row could not be replaced",
    74: "an NVLink failed",
    79: "it has fallen off the bus",
    95: "a memory error that was not contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "memory errors that could not be corrected",
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
    """Return what follows from an XID. What is enabled wins, also where all is disabled."""
    usual = Action.FATAL
    if number in APPLICATION:
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


def overrides(disable: str, enable: str) -> Overrides:
    """Read NVIDIA's two variables: XIDs with commas between, or all (xids, to disable)."""
    return Overrides(
        _numbers(DISABLE, disable, ("all", "xids")), _numbers(ENABLE, enable, ("all",))
    )


def _numbers(name: str, text: str, everything: tuple[str, ...]) -> frozenset[int] | None:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if any(word in everything for word in words):
        return None
    for word in words:
        if not re.fullmatch("[0-9]{1,8}", word) or int(word) > HIGHEST:
            expected = f"numbers of XIDs or {' or '.join(everything)}"
            raise invalid(f"environment variable {name}", word, expected)
    return frozenset(int(word) for word in words)
