# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Read what a MIG plan needs to know of a GPU."""

from __future__ import annotations

from .._core.gpu import Gpu
from .._core.mig.plan import GpuState
from .api import Nvml


def read(nvml: Nvml, gpu: Gpu) -> GpuState:
    """Return a GPU's state; NvmlError when it does not answer."""
    instances = tuple(nvml.gpu_instances(gpu))
    return GpuState(
        gpu,
        tuple(nvml.gi_profiles(gpu)),
        instances,
        tuple(nvml.processes(gpu)),
        tuple(nvml.mig_devices(gpu)),
        {one.id: nvml.ci_places(gpu, one.id) for one in instances},
    )
