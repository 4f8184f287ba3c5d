# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is reported of each GPU's layout: as it was, as it is, and what became of its instances."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.gpu import GpuInstance
from ..plan import GpuPlan, GpuState


def _instance(state: GpuState, one: GpuInstance) -> t.Dict[str, t.Any]:
    """Return a GPU instance with its compute instances and the UUIDs of its MIG devices."""
    return {
        "id": one.id,
        "profile": state.name_of(one),
        "start": one.start,
        "size": one.size,
        "compute_instances": [dataclasses.asdict(ci) for ci in one.cis],
        "uuids": [device.uuid for device in state.devices if device.gi_id == one.id],
    }


def report(
    before: GpuState, now: GpuState, plan: t.Optional[GpuPlan], *, planned_only: bool
) -> t.Dict[str, t.Any]:
    """Return the report on one GPU; ``planned_only`` where the plan was not carried out.

    What was kept, created and destroyed is read from the GPU, not from the plan, where it can be.
    """
    was = {instance.id: instance for instance in before.instances}
    current = [_instance(now, instance) for instance in now.instances]
    created: t.List[t.Dict[str, t.Any]] = []
    destroyed: t.Sequence[int] = plan.destroyed if plan else ()
    if plan and planned_only:
        created = [one._asdict() for one in plan.created]
    elif plan:
        devices = {device.uuid for device in before.devices}
        created = [one for one in current if one["uuids"] and not devices & set(one["uuids"])]
        places = {(instance.profile_id, instance.start) for instance in now.instances}
        gone = [
            instance.id
            for instance in before.instances
            if (instance.profile_id, instance.start) not in places
        ]
        destroyed = tuple(dict.fromkeys([*plan.destroyed, *gone]))
    return {
        "index": now.gpu.index,
        "uuid": now.gpu.uuid,
        "name": now.gpu.name,
        "pci_bus_id": now.gpu.pci_bus_id,
        "mig_capable": now.gpu.mig_capable,
        "mig_enabled": now.gpu.mig_current,
        "mig_pending": now.gpu.mig_pending,
        "before": [_instance(before, instance) for instance in before.instances],
        "instances": current,
        "kept": [_instance(before, was[one]) for one in (plan.kept if plan else ()) if one in was],
        "created": created,
        "destroyed": [_instance(before, was[one]) for one in destroyed if one in was],
        "steps": [step.describe() for step in plan.steps] if plan else [],
        "picture": now.picture,
    }
