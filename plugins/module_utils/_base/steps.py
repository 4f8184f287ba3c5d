# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plans: the ordered steps from a node's observed state to the desired one."""

from __future__ import annotations

import dataclasses
import typing as t

IDLE_GPU = "idle_gpu"


@dataclasses.dataclass(frozen=True)
class Step:
    """One change of the node.

    Attributes:
        action: The name of the kind of change, by which the capability knows how to apply it.
        summary: The change as users read it.
        params: The arguments for applying it.
        needs: What the change costs the node: ``restart:<unit>``, ``reboot``, or IDLE_GPU if no GPU may be in use.
    """

    action: str
    summary: str
    params: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    needs: t.Tuple[str, ...] = ()

    def describe(self) -> t.Dict[str, t.Any]:
        """Return the step as a module reports it."""
        return {"action": self.action, "summary": self.summary, "needs": list(self.needs)}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps, the state of the node before and after them, and what prevents them.

    Attributes:
        steps: The changes, in order.
        before: The observed state for the diff, as text or as a value that JSON can hold.
        after: The state after all steps, likewise.
        reboot_required: Why the node must be rebooted.
        restart_required: The units that must be restarted.
        blocked_by: The processes, containers and pods that use what the steps change.
        warnings: Messages to the user.
        more: Whether further steps can only be planned once these are applied.
        later: What must happen before any steps can be planned, empty if they are known.
        refused: Whether a run would fail now because of ``blocked_by``.
    """

    steps: t.Tuple[Step, ...] = ()
    before: t.Any = None
    after: t.Any = None
    reboot_required: t.Tuple[str, ...] = ()
    restart_required: t.Tuple[str, ...] = ()
    blocked_by: t.Tuple[str, ...] = ()
    warnings: t.Tuple[str, ...] = ()
    more: bool = False
    later: str = ""
    refused: bool = False
