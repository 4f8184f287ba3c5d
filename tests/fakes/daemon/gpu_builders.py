# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs and MIG devices as a driver would describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_plugin._shared._base.gpu import Condition, FaultSigns, Gpu, MigDevice, Rows
from gpu_plugin.advertise.decide import decide, offer
from gpu_plugin.config.configuration import Config
from gpu_plugin.config.sharing import Naming, Sharing
from gpu_plugin.kubelet.server import Snapshot
from gpu_plugin.model.inventory import (
    Device,
    Devices,
    GpuView,
    HostState,
    Inventory,
    Kind,
    Problem,
    Resources,
)
from gpu_plugin.model.mps.paths import ROOT


def gpu(index: int = 0, *, mig: bool = False, name: str = "NVIDIA H100 80GB HBM3") -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index}",
        name=name,
        pci_bus_id=f"0000:{index + 1:02x}:00.0",
        minor=index,
        memory_total=80 << 30,
        compute_capability=(9, 0),
        mig_capable=True,
        mig_current=mig,
        mig_pending=mig,
        pci_device_id=0x2330,
    )


def mig(parent: int, index: int, profile: str = "1g.10gb") -> MigDevice:
    return MigDevice(
        uuid=f"MIG-{parent}-{index}",
        gpu_uuid=f"GPU-{parent}",
        gpu_index=parent,
        mig_index=index,
        gi_id=index + 7,
        ci_id=0,
        profile=profile,
        memory_total=10 << 30,
    )


def view(
    index: int = 0,
    *profiles: str,
    on: bool | None = None,
    numa: int | None = 0,
    problem: str = "",
    lost: bool = False,
) -> GpuView:
    """A GPU with these MIG devices, in MIG mode if it has any."""
    enabled = bool(profiles) if on is None else on
    devices = tuple(mig(index, number, profile) for number, profile in enumerate(profiles))
    kind = Kind.LOST if lost else Kind.UNREADABLE
    why = Problem(kind, problem) if problem else None
    return GpuView(gpu(index, mig=enabled), devices, numa, why)


def condition(*, failed: bool | None = None, pending: bool | None = None, **told: Any) -> Condition:
    """What a GPU tells: signs of faults and other readings by their names, and whether memory rows failed or wait."""
    rows = None
    if failed is not None or pending is not None:
        rows = Rows(0, 0, pending=bool(pending), failed=bool(failed))
    signs = {key: told.pop(key) for key in list(told) if key in FaultSigns.__dataclass_fields__}
    return Condition(FaultSigns(rows=rows, **signs), **told)


def inventory(
    *views: GpuView, unreadable: Mapping[int, str] | None = None, addresses: tuple[str, ...] = ()
) -> Inventory:
    """These GPUs, with why others can't be read by their index, and the PCI addresses that there are."""
    caps: dict[str, int] = {}
    for one in views:
        for device in one.mig:
            base = 1000 * one.gpu.minor + 10 * device.gi_id
            caps[f"gpu{one.gpu.minor}/gi{device.gi_id}/access"] = base
            caps[f"gpu{one.gpu.minor}/gi{device.gi_id}/ci{device.ci_id}/access"] = base + 1
    broken = {index: Problem(Kind.LOST, why) for index, why in (unreadable or {}).items()}
    return Inventory("550.163.01", views, caps, broken, addresses=frozenset(addresses))


def device(index: int, numa: int | None = 0, problem: str = "") -> Device:
    why = Problem(Kind.FAULT, problem) if problem else None
    return Device(f"GPU-{index}", f"GPU-{index}", (index,), (f"/dev/nvidia{index}",), numa, why)


def enumerate_devices(
    now: Inventory, strategy: str = "none", naming: Naming | None = None
) -> Mapping[str, Devices]:
    """The devices of each resource under a MIG strategy. EnumerationRefused: it does not fit."""
    advertised = decide(now, {}, Config(mig_strategy=strategy, naming=naming or Naming()))
    if advertised.refusal:
        raise advertised.refusal
    return advertised.resources


def notes(now: Inventory, strategy: str, naming: Naming | None = None) -> list[str]:
    """What is said of a node's GPUs under a MIG strategy."""
    return [*decide(now, {}, Config(mig_strategy=strategy, naming=naming or Naming())).notes]


def share(resources: Resources, sharing: Sharing, mps_root: str = ROOT) -> dict[str, Devices]:
    """What resources become if they are shared in this way."""
    shared: dict[str, list[Device]] = {}
    for offered in offer(resources, sharing, mps_root):
        shared.setdefault(offered.resource, []).extend(offered.devices)
    return {name: Devices(devices) for name, devices in shared.items()}


def snapshot(
    resources: Resources, config: Config | None = None, host: HostState | None = None
) -> Snapshot:
    """What is published where these are the devices."""
    devices = {name: Devices.of(those) for name, those in resources.items()}
    return Snapshot(devices, config or Config(), host or HostState())
