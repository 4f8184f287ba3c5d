# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What there is: the GPUs, and for each of them its MIG devices, or why they can't be read."""

from __future__ import annotations

from .._core.gpu import Gpu, GpuDevices, Inventory, NvmlError
from .api import Nvml


def inventory(nvml: Nvml) -> Inventory:
    """Return the inventory. A GPU whose MIG devices can't be read is part of it, with the error."""
    gpus, broken = nvml.gpus()
    devices = tuple(_devices(nvml, gpu) for gpu in gpus)
    return Inventory(nvml.driver_version(), devices, tuple(broken))


def _devices(nvml: Nvml, gpu: Gpu) -> GpuDevices:
    try:
        return GpuDevices(gpu, tuple(nvml.mig_devices(gpu)))
    except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
        return GpuDevices(gpu, error=error)
