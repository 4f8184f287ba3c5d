# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of the node: a part's plan, of the capability that makes it, and the node's validation."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..._base.errors import NodeError
from ..._base.steps import Plan
from ..._device_plugin.machine import status
from ..._machine.bounded import AheadHost
from ..._machine.run import Capability, described, difference, dressed, refusal
from ..parts import Part
from ..preflight.machine.modules import Values, options
from ..validate.capability import ValidateCapability
from ..validate.options import SPEC

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
        said = {**refusal(part.module, error), "until": error.until}
        return {**_answer(part.name, Plan(), {}), "error": said}
    answer = _answer(part.name, found, result)
    if shows_difference and found.steps:
        answer["diff"] = difference(found, found.steps)
    return answer


def _answer(name: str, plan: Plan, result: Answer) -> Answer:
    return {
        "name": name,
        **described(plan, plan.steps),
        "warnings": list(plan.warnings),
        "error": {},
        "later": plan.later or (MORE if plan.more else ""),
        "diff": {},
        "result": result,
    }


class Validation:
    """What gpu.node.validate does with the variables of its role; the daemon is asked while parts are planned."""

    def __init__(
        self,
        values: Values,
        make: t.Callable[..., ValidateCapability] = ValidateCapability,
        host: t.Optional[AheadHost] = None,
    ) -> None:
        self._values, self._make = values, make
        self._host = host or AheadHost()
        self._host.begin(status.command(self._host), check=False, timeout=status.PATIENCE)

    def answer(self) -> Answer:
        """Return what the module answers, nothing where it has to refuse itself."""
        spec = ArgumentSpecValidator(SPEC["argument_spec"])
        given = {**options("validate", self._values), "fail": False}
        try:
            capability = self._make(self._host, spec.validate(given).validated_parameters)
            state = capability.observe()
            plan = capability.plan(state)
        except NodeError:
            return {}
        return {**capability.result(state, plan), "warnings": list(plan.warnings)}
