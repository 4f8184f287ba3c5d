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
from .vgpu import readable, vgpu

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
    folders = {gpu.uuid: host_root / BUS / gpu.pci_bus_id for gpu in gpus}
    spaces = {uuid: _content(folder / "config") for uuid, folder in folders.items()}
    return Facts(
        inventory,
        cuda,
        _content(host_root / machine_type_file.lstrip("/")).decode(errors="replace").strip(),
        {uuid: _class(_content(folder / "class")) for uuid, folder in folders.items()},
        attributes,
        cliques,
        {uuid: vgpu(space) for uuid, space in spaces.items() if readable(space)},
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


def _content(path: Path) -> bytes:
    """Return a file's bytes, none where it can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _class(text: bytes) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
