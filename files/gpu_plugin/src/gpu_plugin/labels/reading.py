# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads what labels are made of: NVML, the PCI bus, and the machine's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .._shared._core.gpu import Gpu, NvmlError
from .._shared._nvml import label_reading
from .._shared._nvml.api import Nvml
from .._shared._nvml.real import open_nvml
from ..gpus.driver import preload
from ..offer.devices import GpuView, Inventory
from ..offer.problem import Kind, Problem
from .rows import Facts
from .vgpu import Vgpu, readable, vgpu

D = TypeVar("D")
T = TypeVar("T")
BUS = "sys/bus/pci/devices"


def read(host_root: Path, driver_roots: tuple[str, ...], machine_type_file: str) -> Facts:
    """Return what a node has. NvmlError: there is no driver to ask, or it failed.

    The driver is let go of afterwards, so that it can be unloaded.
    """
    preload(driver_roots)
    with open_nvml() as nvml:
        gpus, broken = nvml.gpus()
        views = tuple(_view(nvml, gpu) for gpu in gpus)
        attributes = {
            mig.uuid: found
            for view in views
            for mig in view.mig
            if (found := _or_none(label_reading.attributes, mig))
        }
        cliques = {gpu.uuid: _or_none(label_reading.clique, gpu) for gpu in gpus}
        inventory = Inventory(
            nvml.driver_version(), views, unreadable=tuple(str(error) for error in broken)
        )
        cuda = nvml.cuda_version()
    return Facts(
        inventory,
        cuda,
        _machine(host_root, machine_type_file),
        {gpu.uuid: _class(host_root, gpu) for gpu in gpus},
        attributes,
        cliques,
        _vgpus(host_root, gpus),
    )


def _view(nvml: Nvml, gpu: Gpu) -> GpuView:
    try:
        return GpuView(gpu, tuple(nvml.mig_devices(gpu)))
    except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
        return GpuView(gpu, problem=Problem(Kind.UNREADABLE, f"it can't be read: {error}"))


def _or_none(ask: Callable[[D], T | None], device: D) -> T | None:
    """Return an answer; None where a device does not give it, such as one that just went."""
    try:
        return ask(device)
    except NvmlError:
        return None


def _machine(host_root: Path, path: str) -> str:
    try:
        return (host_root / path.lstrip("/")).read_text(errors="replace").strip()
    except OSError:
        return ""


def _class(host_root: Path, gpu: Gpu) -> int:
    try:
        return int((host_root / BUS / gpu.pci_bus_id / "class").read_text(), 16)
    except (OSError, ValueError):
        return 0


def _vgpus(host_root: Path, gpus: list[Gpu]) -> dict[str, Vgpu | None]:
    found = {}
    for gpu in gpus:
        try:
            config = (host_root / BUS / gpu.pci_bus_id / "config").read_bytes()
        except OSError:
            continue
        if readable(config):
            found[gpu.uuid] = vgpu(config)
    return found
