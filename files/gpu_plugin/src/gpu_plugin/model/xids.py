# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The effects of XIDs, the driver's numbers for errors: as the verdict has them, unless the user overrides it. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .._shared._base.gpu import FaultSigns
from .._shared._repair.signs import GpuSigns, NodeSigns, Xid
from .._shared._repair.verdict import Reason, judge_gpu

SPEAKS, SILENT = FaultSigns(recovery=0), FaultSigns()


class Effect(enum.Enum):
    """The effect of an XID on a GPU."""

    IGNORE = "ignore"
    DEGRADE = "degrade"  # Unhealthy, and Healthy again by itself after a recovery period
    FATAL = "fatal"  # Unhealthy until what the verdict says is done


@dataclass(frozen=True)
class Overrides:
    """XIDs that are to be ignored, and those that are not; None is all of them."""

    disabled: frozenset[int] | None = frozenset()
    enabled: frozenset[int] | None = frozenset()

    def heeds(self, number: int) -> bool:
        """Return whether an XID counts by the user's choice, whatever is known of it."""
        return self.enabled is None or number in self.enabled

    def ignores(self, number: int) -> bool:
        """Return whether an XID does not count by the user's choice. What is enabled wins, also if all is disabled."""
        return not self.heeds(number) and (self.disabled is None or number in self.disabled)


def effect(
    xid: Xid, overrides: Overrides, branch: int = 0, *, speaks: bool = False
) -> tuple[Effect, Reason]:
    """Return what follows from an XID, and what it asks for.

    Args:
        xid: The XID.
        overrides: The user's choices.
        branch: The driver's branch.
        speaks: Whether the driver reports a recovery action, which goes before the list of XIDs if it covers this one
            and the user has not named it.
    """
    heeded = overrides.heeds(xid.number)
    signs = SPEAKS if speaks and not heeded else SILENT
    gpu = GpuSigns("", signs=signs, xids=(xid,))
    reason = judge_gpu(NodeSigns(branch), gpu).reasons[0]
    if overrides.ignores(xid.number):
        return Effect.IGNORE, reason
    if reason.action.fences:
        return Effect.FATAL, reason
    return Effect.DEGRADE if heeded else Effect.IGNORE, reason
