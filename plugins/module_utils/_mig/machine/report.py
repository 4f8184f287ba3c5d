# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The report on each GPU's layout: before, after, and the instances that were kept, created and destroyed."""

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
    """Return the report on one GPU; ``planned_only`` is whether the plan was not carried out.

    Instances that were kept, created and destroyed are read from the GPU if possible, not from the plan.
    """
    was = {instance.id: instance for instance in before.instances}
    current = [_instance(after, instance) for instance in after.instances]
    created: t.List[t.Dict[str, t.Any]] = []
    destroyed: t.Sequence[int] = plan.destroyed if plan else ()
    if plan and planned_only:
        created = [placed._asdict() for placed in plan.created]
    elif plan:
        devices = {device.uuid for device in before.devices}
        created = [gi for gi in current if gi["uuids"] and devices.isdisjoint(gi["uuids"])]
        places = {(gi.profile_id, gi.start) for gi in after.instances}
        gone = [gi.id for gi in before.instances if (gi.profile_id, gi.start) not in places]
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
        "kept": [_instance(before, was[gi]) for gi in (plan.staying if plan else ()) if gi in was],
        "created": created,
        "destroyed": [_instance(before, was[gi]) for gi in destroyed if gi in was],
        "steps": [step.describe() for step in plan.steps] if plan else [],
        "picture": after.picture,
    }
