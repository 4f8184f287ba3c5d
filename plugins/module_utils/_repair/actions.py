# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What can be done about a GPU, or a node with GPUs, each stronger than those before it."""

from __future__ import annotations

import enum
import typing as t


class Action(enum.IntEnum):
    """What to do. The order is the driver's own where it has one: a reset goes before a drain, a reboot before both.

    ``ASK`` and ``REPLACE`` are a person's work, and stronger than a reboot: nothing else is done before that.
    """

    NONE = 0
    RESTART_APPLICATION = 1
    RECOVER_FABRIC = 2
    DRAIN_THEN_RESET = 3  # no new work, what runs may end, then a reset
    RESET = 4  # of the GPU, once whatever uses it has ended
    RESET_ALL = 5  # of several GPUs by one command
    REBOOT = 6
    ASK = 7
    REPLACE = 8

    @property
    def word(self) -> str:
        """Its name, as users write and read it."""
        return self.name.lower()

    @property
    def acts(self) -> bool:
        """Whether there is something to do about the GPU or its node; who runs applications restarts them."""
        return self > Action.RESTART_APPLICATION

    @property
    def fences(self) -> bool:
        """Whether the GPU gets no new work until it is done. Most jobs do without its fabric."""
        return self > Action.RECOVER_FABRIC

    @property
    def resets(self) -> bool:
        """Whether it is a reset, of whatever kind."""
        return Action.DRAIN_THEN_RESET <= self <= Action.RESET_ALL


STEPS: t.Mapping[Action, str] = {
    Action.NONE: "nothing",
    Action.RESTART_APPLICATION: "a restart of the application",
    Action.RECOVER_FABRIC: "a recovery of the fabric, or of the IMEX domain",
    Action.DRAIN_THEN_RESET: "no new work, and a reset of the GPU when what runs has ended",
    Action.RESET: "a reset of the GPU",
    Action.RESET_ALL: "a reset of several GPUs at once",
    Action.REBOOT: "a reboot of the node",
    Action.ASK: "a person who looks at it",
    Action.REPLACE: "another GPU in its place",
}
NAMES: t.Mapping[str, Action] = {one.word: one for one in Action}
# What concerns more than the GPU that it is found on.
WIDE = frozenset({Action.RECOVER_FABRIC, Action.RESET_ALL, Action.REBOOT})
