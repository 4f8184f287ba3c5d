# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is reported of each GPU's layout: as it was, as it is, and what became of its instances."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.gpu import GpuInstance
from ..plan import GpuPlan, GpuState


def _instance(state: GpuState, instance: GpuInstance) -> t.Dict[str, t.Any]:
    """Return a GPU instance with its compute instances and the UUIDs of its MIG devices."""
    return {
        "id": instance.id,
        "profile": state.name_of(instance),
        "start": instance.start,
        "size": instance.size,
        "compute_instances": [dataclasses.asdict(ci) for ci in instance.cis],
        "uuids": [device.uuid for device in state.devices if device.gi_id == instance.id],
    }


def report(
    before: GpuState, after: GpuState, plan: t.Optional[GpuPlan], *, planned_only: bool
) -> t.Dict[str, t.Any]:
    """Return the report on one GPU; ``planned_only`` where the plan was not carried out.

    What was kept, created and destroyed is read from the GPU, not from the plan, where it can be.
    """
    was = {instance.id: instance for instance in before.instances}
    current = [_instance(after, instance) for instance in after.instances]
    created: t.List[t.Dict[str, t.Any]] = []
    destroyed: t.Sequence[int] = plan.destroyed if plan else ()
    if plan and planned_only:
        created = [item._asdict() for item in plan.created]
    elif plan:
        devices = {device.uuid for device in before.devices}
        created = [item for item in current if item["uuids"] and not devices & set(item["uuids"])]
        places = {(instance.profile_id, instance.start) for instance in after.instances}
        gone = [
            instance.id
            for instance in before.instances
            if (instance.profile_id, instance.start) not in places
        ]
        destroyed = tuple(dict.fromkeys([*plan.destroyed, *gone]))
    return {
        "index": after.gpu.index,
        "uuid": after.gpu.uuid,
        "name": after.gpu.name,
        "pci_bus_id": after.gpu.pci_bus_id,
        "mig_capable": after.gpu.mig_capable,
        "mig_enabled": after.gpu.mig_current,
        "mig_pending": after.gpu.mig_pending,
        "before": [_instance(before, instance) for instance in before.instances],
        "instances": current,
        "kept": [
            _instance(before, was[item]) for item in (plan.kept if plan else ()) if item in was
        ],
        "created": created,
        "destroyed": [_instance(before, was[item]) for item in destroyed if item in was],
        "steps": [step.describe() for step in plan.steps] if plan else [],
        "picture": after.picture,
    }
