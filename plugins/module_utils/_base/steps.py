# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plans: the ordered steps that lead from what is to what should be."""

from __future__ import annotations

import dataclasses
import typing as t

IDLE_GPU = "idle_gpu"


@dataclasses.dataclass(frozen=True)
class Step:
    """One change.

    ``action`` names it for machines, ``summary`` for people; ``params`` is what its
    application needs; ``needs`` holds what it takes from the node: ``restart:<unit>``,
    ``reboot`` or that no GPU is in use.
    """

    action: str
    summary: str
    params: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    needs: t.Tuple[str, ...] = ()

    def describe(self) -> t.Dict[str, t.Any]:
        """Return what a user is shown of this step."""
        return {"action": self.action, "summary": self.summary, "needs": list(self.needs)}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The steps, what the node looks like before and after them, and what stands in the way.

    ``before`` and ``after`` are JSON-able values or texts and become the diff. Every entry of
    ``reboot_required``, ``restart_required`` and ``blocked_by`` is a reason in words or a name.
    ``refused`` says that those who are in ``blocked_by`` are why a run would not carry the steps out now.
    ``more`` says that what comes after these steps can only be planned once they are done; ``later`` says what has to
    come before even these can be known.
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
