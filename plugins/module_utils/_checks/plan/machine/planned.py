# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One part, looked at and planned by the capability that makes it."""

from __future__ import annotations

import typing as t

from ...._base.errors import NodeError
from ...._base.steps import Plan
from ...._base.variables import about
from ...._machine.run import Capability, difference, dressed
from ..parts import Part

Answer = t.Dict[str, t.Any]
MORE = "these steps are done"


def planned(
    part: Part, make: t.Callable[[], Capability[t.Any]], *, shows_difference: bool
) -> Answer:
    """Return what the part's module would do on the node as it is, or why it would refuse to."""
    try:
        capability = dressed(make())
        state = capability.observe()
        found = capability.plan(state)
        result = capability.result(state, found)
    except NodeError as error:
        return {**_answer(part.name, Plan(), {}), "error": _refusal(part.module, error)}
    answer = _answer(part.name, found, result)
    if shows_difference and found.steps:
        answer["diff"] = difference(found, found.steps)
    return answer


def _answer(name: str, plan: Plan, result: Answer) -> Answer:
    return {
        "name": name,
        "steps": [step.describe() for step in plan.steps],
        "warnings": list(plan.warnings),
        "reboot_required": bool(plan.reboot_required),
        "reboot_reasons": list(plan.reboot_required),
        "restart_required": list(plan.restart_required),
        "blocked_by": list(plan.blocked_by),
        "error": {},
        "later": plan.later or (MORE if plan.more else ""),
        "diff": {},
        "result": result,
    }


def _refusal(module: str, error: NodeError) -> Answer:
    text = f"{module}: {about(module, error)}"
    return {"msg": text, "cause": error.cause, "hint": error.hint, "until": error.until}
