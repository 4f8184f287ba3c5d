# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices a node offers of which GPUs, under which resource names, and why not to give one away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .._shared._base.errors import NodeError
from .._shared._base.gpu import MigDevice
from ..config.allocation import DEVICES, Dra, owner, unknown
from ..config.sharing import GPU_RESOURCE, Naming, named, resource_name
from ..model.inventory import DISPLAY_ONLY, Device, GpuView, Inventory, Kind, Problem, divided


class EnumerationRefused(NodeError):
    """The GPUs are in a state that the MIG strategy does not allow."""


def owned(inventory: Inventory, dra: Dra, who: str) -> Inventory:
    """Return the inventory with the GPUs of ``device_plugin`` or ``dra`` alone."""
    return replace(
        inventory, gpus=tuple(one for one in inventory.gpus if owner(one.gpu, dra) == who)
    )


def misnamed(inventory: Inventory, dra: Dra) -> list[str]:
    """Say which GPUs the configuration gives to DRA that are not there."""
    if inventory.absent or inventory.strangers:
        return []  # they may be among those that nobody has read yet
    gpus = [view.gpu for view in inventory.gpus]
    return [f"{DEVICES} names {one}, which this node does not have" for one in unknown(gpus, dra)]


def enumerate_devices(
    inventory: Inventory, strategy: str, naming: Naming | None = None
) -> dict[str, tuple[Device, ...]]:
    """Return the devices of each resource under a MIG strategy."""
    naming = naming or Naming()
    views = [view for view in inventory.gpus if view.gpu.name not in DISPLAY_ONLY]
    if strategy == "single":
        check_single(views)
    found: dict[str, list[Device]] = {}
    for view in views:
        if strategy == "none" or not view.gpu.mig_current:
            name = named(naming.gpus, view.gpu.name) or GPU_RESOURCE
            found.setdefault(name, []).append(_whole(view))
            continue
        for mig in view.mig:
            if name := _mig_name(mig, strategy, naming):
                found.setdefault(name, []).append(_part(view, mig, inventory.caps))
    return {
        name: tuple(sorted(found[name], key=lambda device: device.order)) for name in sorted(found)
    }


def _mig_name(mig: MigDevice, strategy: str, naming: Naming) -> str:
    """Return a MIG device's resource, or an empty string where it has none."""
    if name := named(naming.mig, mig.profile):
        return name
    if strategy == "single":
        return GPU_RESOURCE
    return "" if divided(mig) else resource_name(mig.profile)


def left_out(inventory: Inventory, strategy: str, naming: Naming | None = None) -> list[str]:
    """Say which hardware a strategy leaves aside, although it is there, and what waits for a reset."""
    notes = []
    for view in inventory.gpus:
        name = f"GPU {view.gpu.index} ({view.gpu.uuid})"
        if view.gpu.uuid in inventory.slow - inventory.hung:
            notes.append(f"the driver is slow: {name} stays as it was when it answered last")
        if view.condition.signs.rows and view.condition.signs.rows.pending:
            notes.append(
                f"{name} replaces a memory row at its next reset, and can be used until then"
            )
        notes += [
            f"MIG device {uuid} is not advertised: NVML names no profile of it"
            for uuid in view.unnamed
            if strategy != "none"
        ]
        if strategy == "none" and view.gpu.mig_current:
            notes.append(
                f"{name} is in MIG mode but advertised as a whole, since migStrategy is none"
            )
        if strategy == "mixed" and view.gpu.mig_current:
            if not view.mig and not view.unnamed and not view.problem:
                notes.append(f"{name} is in MIG mode and has no MIG devices")
            notes += [
                f"MIG device {mig.uuid} is not advertised: there is no resource for {mig.profile}"
                for mig in view.mig
                if not _mig_name(mig, strategy, naming or Naming())
            ]
    return notes


def check_single(views: list[GpuView]) -> None:
    """Check that GPUs fit the MIG strategy single. EnumerationRefused: they don't."""
    readable = [view for view in views if not view.problem]
    on = [view for view in readable if view.gpu.mig_current]
    if len(on) not in (0, len(readable)):
        off = next(view for view in readable if not view.gpu.mig_current)
        raise EnumerationRefused(
            "migStrategy single needs MIG mode on all GPUs of the node or on none",
            cause=f"it is on for GPU {on[0].gpu.index} and off for GPU {off.gpu.index}",
            hint="set the same MIG mode everywhere, or migStrategy mixed",
        )
    for view in on:
        if not view.mig:
            raise EnumerationRefused(
                "migStrategy single needs MIG devices on every GPU in MIG mode",
                cause=f"GPU {view.gpu.index} ({view.gpu.uuid}) has none",
                hint="create MIG devices on it, or turn its MIG mode off",
            )
    profiles = sorted({mig.profile for view in on for mig in view.mig})
    if len(profiles) > 1:
        raise EnumerationRefused(
            "migStrategy single needs MIG devices that are all alike",
            cause=f"found {', '.join(profiles)}",
            hint="create one profile only, or set migStrategy mixed",
        )


def _whole(view: GpuView) -> Device:
    gpu = view.gpu
    return Device(
        id=gpu.uuid,
        gpu_uuid=gpu.uuid,
        order=(gpu.index,),
        paths=(f"/dev/nvidia{gpu.minor}",),
        numa_node=view.numa_node,
        problem=view.problem or next(iter(view.mig_problems.values()), None),
        memory_total=gpu.memory_total,
        compute_capability=gpu.compute_capability,
    )


def _part(view: GpuView, mig: MigDevice, caps: Mapping[str, int]) -> Device:
    instance = f"gpu{view.gpu.minor}/gi{mig.gi_id}"
    names = (f"{instance}/access", f"{instance}/ci{mig.ci_id}/access")
    missing = [name for name in names if name not in caps]
    problem = view.problem or view.mig_problems.get(mig.uuid)
    if missing and not problem:
        problem = Problem(Kind.NO_CAPABILITY, f"the driver lists no capability {missing[0]}")
    nodes = (f"/dev/nvidia-caps/nvidia-cap{caps[name]}" for name in names if name in caps)
    return Device(
        id=mig.uuid,
        gpu_uuid=view.gpu.uuid,
        order=(view.gpu.index, mig.mig_index),
        paths=(f"/dev/nvidia{view.gpu.minor}", *nodes),
        numa_node=view.numa_node,
        problem=problem,
        instance=(mig.gi_id, mig.ci_id),
        memory_total=mig.memory_total,
        compute_capability=view.gpu.compute_capability,
        slices=mig.slices,
    )
