# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's validation in the process that has planned: for a node that has nothing to do."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...._base.errors import NodeError
from ...._device_plugin.machine import status
from ...._machine.bounded import AheadHost
from ...preflight.machine.parts import Values, options
from ...validate.capability import ValidateCapability
from ...validate.options import SPEC

Answer = t.Dict[str, t.Any]


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
