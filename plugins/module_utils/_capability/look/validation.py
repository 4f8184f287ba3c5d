# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's validation in the process that has planned: for a node that has nothing to do."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..._core.errors import NodeError
from ..._host.bounded import BoundedHost
from ..preflight.parts import Values, options
from ..validate.capability import SPEC, ValidateCapability

Answer = t.Dict[str, t.Any]


def validated(
    values: Values, make: t.Callable[..., ValidateCapability] = ValidateCapability
) -> Answer:
    """Return what gpu.node.validate answers with the variables of its role, nothing where it has to refuse itself."""
    spec = ArgumentSpecValidator(SPEC["argument_spec"])
    given = {**options("validate", values), "fail": False}
    try:
        capability = make(BoundedHost(), spec.validate(given).validated_parameters)
        state = capability.observe()
        plan = capability.plan(state)
    except NodeError:
        return {}
    return {**capability.result(state, plan), "warnings": list(plan.warnings)}
