# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVML can be asked, and what it can be made to do."""

from __future__ import annotations

import typing as t

from .._core.gpu import GiProfile, Gpu, GpuInstance, MigDevice, NvmlError, Process


class Nvml(t.Protocol):
    """NVML. Every method may raise NvmlError."""

    def driver_version(self) -> str:
        """Return the driver's version, such as 550.163.01."""

    def cuda_version(self) -> str:
        """Return the newest CUDA version that the driver serves, such as 12.4."""

    def gpus(self) -> t.Tuple[t.List[Gpu], t.List[NvmlError]]:
        """Return the GPUs that answer, and an error for each that does not."""

    def mig_devices(self, gpu: Gpu) -> t.List[MigDevice]:
        """Return the MIG devices of a GPU."""

    def gi_profiles(self, gpu: Gpu) -> t.List[GiProfile]:
        """Return the profiles that a GPU offers."""

    def gpu_instances(self, gpu: Gpu) -> t.List[GpuInstance]:
        """Return the GPU instances, with their compute instances."""

    def processes(self, gpu: Gpu) -> t.List[Process]:
        """Return the processes on a GPU and its instances."""

    def set_mig_mode(self, gpu: Gpu, on: bool) -> int:
        """Set MIG mode and return the activation status: 0, or why it is only pending."""

    def create_instance(self, gpu: Gpu, profile: GiProfile, start: int) -> int:
        """Create a GPU instance without compute instances; return its id."""

    def ci_placements(self, gpu: Gpu, gi_id: int) -> t.Dict[int, t.Tuple[int, ...]]:
        """Return where compute instances may begin in a GPU instance, by their slices."""

    def create_compute_instance(self, gpu: Gpu, gi_id: int, slices: int, start: int) -> None:
        """Create a compute instance at a place in a GPU instance."""

    def destroy_compute_instance(self, gpu: Gpu, gi_id: int, ci_id: int) -> None:
        """Destroy one compute instance and leave its GPU instance."""

    def destroy_instance(self, gpu: Gpu, gi_id: int) -> None:
        """Destroy a GPU instance with its compute instances."""
