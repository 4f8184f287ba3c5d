# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The placement grids of real GPUs, for planner tests."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.module_utils._nvml.api import (
    ComputeInstance,
    GiProfile,
    Gpu,
    GpuInstance,
)


def _profile(
    number: int, name: str, slices: int, most: int, starts: list[int], size: int
) -> GiProfile:
    return GiProfile(
        number, number, name, slices, most, 1000 * size, tuple((at, size) for at in starts)
    )


A100 = (
    _profile(19, "1g.5gb", 1, 7, [0, 1, 2, 3, 4, 5, 6], 1),
    _profile(20, "1g.5gb+me", 1, 1, [0, 1, 2, 3, 4, 5, 6], 1),
    _profile(15, "1g.10gb", 1, 4, [0, 2, 4, 6], 2),
    _profile(14, "2g.10gb", 2, 3, [0, 2, 4], 2),
    _profile(9, "3g.20gb", 3, 2, [0, 4], 4),
    _profile(5, "4g.20gb", 4, 1, [0], 4),
    _profile(0, "7g.40gb", 7, 1, [0], 8),
)
A30 = (
    _profile(14, "1g.6gb", 1, 4, [0, 1, 2, 3], 1),
    _profile(21, "1g.6gb+me", 1, 1, [0, 1, 2, 3], 1),
    _profile(5, "2g.12gb", 2, 2, [0, 2], 2),
    _profile(0, "4g.24gb", 4, 1, [0], 4),
)
GPU = Gpu(0, "GPU-0", "A100", "0000:18:00.0", 0, 40 << 30, (8, 0), True, True, True, 0x20B0)


def instance(profiles: tuple[GiProfile, ...], name: str, start: int, number: int) -> GpuInstance:
    """Return an instance with its compute instance."""
    found = next(one for one in profiles if one.name == name)
    size = dict(found.placements)[start]
    return GpuInstance(number, found.id, start, size, (ComputeInstance(0, found.slices),))
