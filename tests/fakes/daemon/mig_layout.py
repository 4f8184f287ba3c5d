# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Give a GPU a MIG layout: ``python mig_layout.py GPU [PROFILE...]``; no profile turns MIG off."""

from __future__ import annotations

import sys

from gpu_plugin._shared._base.gpu import Gpu, NvmlError
from gpu_plugin._shared._machine.nvml.real import Nvml, open_nvml


def create(nvml: Nvml, gpu: Gpu, name: str) -> None:
    """Create an instance of a profile at the first place that is free."""
    profile = next(one for one in nvml.gi_profiles(gpu) if one.name == name)
    for start, _size in profile.placements:
        try:
            instance = nvml.create_instance(gpu, profile, start)
        except NvmlError:
            continue
        nvml.create_compute_instance(gpu, instance, profile.slices, 0)
        return
    sys.exit(f"no room for {name}")


def main(index: int, profiles: list[str]) -> None:
    """Replace the layout."""
    with open_nvml() as nvml:
        gpu = nvml.gpus()[0][index]
        for instance in nvml.gpu_instances(gpu):
            nvml.destroy_instance(gpu, instance.id)
        if gpu.mig_current != bool(profiles):
            nvml.set_mig_mode(gpu, bool(profiles))
        gpu = nvml.gpus()[0][index]
        for name in profiles:
            create(nvml, gpu, name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
