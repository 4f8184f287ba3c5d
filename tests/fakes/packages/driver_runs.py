# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's capability as its module runs it, on whichever machine."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import DriverCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.nvidia_driver import SPEC


def capability(host: Any, *, check_mode: bool = False, **params: Any) -> DriverCapability:
    """Return the capability with the module's defaults, but for the table of releases."""
    defaults = {name: spec.get("default") for name, spec in SPEC["argument_spec"].items()}
    values = {**defaults, "releases": False, **params}
    return DriverCapability(host, values, check_mode=check_mode)


def converge(host: Any, **params: Any) -> Plan:
    """Bring the node to the wanted state and return the plan that is left."""
    one = capability(host, **params)
    for _round in range(5):
        found = one.plan(one.observe())
        for step in found.steps:
            one.apply(step)
        if not found.more:
            return one.plan(one.observe())
    raise AssertionError("there is always more to do")


def planned(host: Any, *, check_mode: bool = True, **params: Any) -> Plan:
    """Return the plan of a run, by default in check mode."""
    one = capability(host, check_mode=check_mode, **params)
    return one.plan(one.observe())


def reported(host: Any, **params: Any) -> dict[str, Any]:
    """Return what a run in check mode reports."""
    one = capability(host, check_mode=True, **params)
    state = one.observe()
    return one.result(state, one.plan(state))
