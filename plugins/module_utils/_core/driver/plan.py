# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan from a node as it is to one with the wanted driver, or without it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..steps import Plan
from . import loading, services
from .absent import absent
from .refusals import check
from .report import after, describe, warnings
from .select import Draft
from .sources import distribution, preinstalled, runfile
from .state import Desired, Observed

SOURCES: t.Dict[str, t.Callable[[Observed, Desired, bool], Draft]] = {
    "distribution": distribution.plan,
    "repository": distribution.plan,
    "runfile": runfile.plan,
    "preinstalled": preinstalled.plan,
}


def plan(observed: Observed, desired: Desired, *, check_mode: bool) -> Plan:
    """Return the plan; NodeError where the node cannot be brought there.

    What can only be planned once the package lists are there comes with the next plan, except
    in check mode, which tells all of it as far as it is known.
    """
    if desired.state == "absent":
        return absent(observed, check_mode)
    check(observed, desired)
    draft = SOURCES[desired.source](observed, desired, check_mode)
    choice, more = draft.choice, bool(draft.steps)
    observed = dataclasses.replace(observed, names=choice.names) if choice else observed
    before = describe(observed)
    if choice is None:
        return Plan(draft.steps, before, before, reboot_required=draft.reboot, more=more)
    found = loading.look(observed, desired, choice)
    usable = not found.reboot and bool(observed.gpus)
    start = usable and (observed.loaded is not None or desired.load)
    steps = (
        *draft.steps,
        *loading.plan(observed, desired, found),
        *services.plan(observed, desired, start=start),
    )
    return Plan(
        steps,
        before,
        after(observed, choice, steps),
        reboot_required=found.reboot,
        warnings=warnings(observed, choice, steps),
    )
