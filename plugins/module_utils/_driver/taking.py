# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which steps take the loaded driver from those who use it, and the refusal of them."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.steps import IDLE_GPU, Plan, Step
from .._node.users import holders
from .._node.users.busy import refuse_if_busy
from .branches import Version
from .select import Choice
from .state import Observed

UNTOUCHED = "GPUs are in use, and the driver was not touched"


def marked(
    steps: t.Iterable[Step], observed: Observed, choice: t.Optional[Choice] = None
) -> t.Tuple[Step, ...]:
    """Return the steps; those that take the loaded driver from its users need idle GPUs."""
    return tuple(
        dataclasses.replace(one, needs=(*one.needs, IDLE_GPU))
        if IDLE_GPU not in one.needs and _takes(one, observed, choice)
        else one
        for one in steps
    )


def _takes(step: Step, observed: Observed, choice: t.Optional[Choice]) -> bool:
    if observed.loaded is None:
        return False
    if step.action == "remove":
        return any(step.params[key] for key in ("packages", "back", "fabric"))
    if step.action == "install" and choice is not None:
        return _replaces(step.params, observed, choice)
    return step.action in ("runfile", "uninstall")


def _replaces(params: t.Mapping[str, t.Any], observed: Observed, choice: Choice) -> bool:
    """Tell whether a transaction brings another driver than the loaded one in place of one that is there."""
    if (choice.version, choice.kind) == observed.loaded:
        return False
    if not any(map(observed.installed, observed.packages)):
        return True
    for name, version in params["packages"].items():
        have = observed.installed(name)
        if have and (version is None or Version.of(version) != Version.of(have)):
            return True
        if not have and observed.type_of(name):
            return True
    return any(observed.type_of(name) and observed.installed(name) for name in params["remove"])


def takes(found: Plan) -> bool:
    """Tell whether a plan takes the loaded driver from its users, or reloads it."""
    return any(IDLE_GPU in step.needs for step in found.steps)


def replaces(found: Plan) -> bool:
    """Tell whether a plan takes the driver from its users, and does not only reload it where nobody is on a GPU."""
    return any(IDLE_GPU in step.needs and step.action != "reload" for step in found.steps)


def in_the_way(observed: Observed) -> t.Tuple[str, ...]:
    """Return who has a GPU, in words: processes, then pods."""
    return (*(f"process {one}" for one in observed.users), *observed.allocated)


def refuse(observed: Observed, *, absent: bool, waited: t.Optional[int] = None) -> None:
    """Raise Busy where anybody has a GPU; it names them, and how that ends."""
    ways = holders.advice(observed.users, observed.allocated)
    plays = "drain the node"
    if not absent:
        plays = "run the playbook gpu.node.upgrade_driver, which drains the node"
    hint = f"{plays}, or set nvidia_driver_on_busy (on_busy) to wait or proceed"
    what = UNTOUCHED if waited is None else f"after {waited} s {UNTOUCHED}"
    refuse_if_busy(what, in_the_way(observed), hint=f"{ways}; {hint}" if ways else hint)
