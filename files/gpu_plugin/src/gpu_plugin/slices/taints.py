# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The taints of devices that must not be allocated, one key for each kind of problem. Pure.

The effect is NoSchedule, as NVIDIA's driver has it: pods that use a sick GPU are not ended by us. A cluster's
administrator can end them with a DeviceTaintRule. The time that a taint was added is the API server's. What is to be
done about the GPU has a key of its own, with the effect None if the GPU may be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .._shared._base.dra.names import DRIVER, SHARE
from .._shared._repair.signs import Action
from ..model.inventory import Kind, Problem
from .targets import Target

EFFECT, NO_EFFECT = "NoSchedule", "None"
RECOVERY_ACTION: Final = "recovery-action"
KEYS: Final = {
    Kind.LOST: "gpu-lost",
    Kind.FAULT: "fault",
    Kind.UNREADABLE: "unreadable",
    Kind.HUNG: "hung",
    Kind.NO_DRIVER: "no-driver",
    Kind.NO_NODE: "no-node",
}
UNENFORCED: Final = "unenforced"
QUARANTINED: Final = "quarantined"


def taints(target: Target, unenforced: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a device's taints. ``unenforced`` is why shares can't be enforced, by the GPU's UUID."""
    result = []
    problem, asks = _problem(target), target.view.verdict.action
    if target.view.quarantined:
        result.append({"key": f"{DRIVER}/{QUARANTINED}", "effect": EFFECT})
    if problem and problem.xid:
        result.append({"key": f"{DRIVER}/xid", "value": str(problem.xid), "effect": EFFECT})
    elif problem:
        result.append({"key": f"{DRIVER}/{KEYS.get(problem.kind, 'fault')}", "effect": EFFECT})
    verdict = problem.verdict if problem else asks if asks.acts else Action.NONE
    if verdict:
        key, effect = f"{DRIVER}/{RECOVERY_ACTION}", EFFECT if problem else NO_EFFECT
        result.append({"key": key, "value": verdict.word, "effect": effect})
    if target.type == SHARE and unenforced.get(target.view.gpu.uuid):
        result.append({"key": f"{DRIVER}/{UNENFORCED}", "effect": EFFECT})
    return result


def _problem(target: Target) -> Problem | None:
    """Return the problem of a device, of all of its GPU or of its part of it; a quarantine does not count."""
    view, parts = target.view, target.view.mig_problems
    whole = view.problem if view.problem and view.problem.kind is not Kind.QUARANTINED else None
    if whole or not parts:
        return whole
    if target.profile is None:
        return next(iter(parts.values()))
    gis = {
        instance.id
        for instance in view.layout.instances
        if (instance.profile_id, instance.start) == (target.profile.id, target.start)
    }
    for mig in view.mig:
        if mig.gi_id in gis and target.mig in (None, mig) and mig.uuid in parts:
            return parts[mig.uuid]
    return None
