# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The placement grids of real GPUs, for planner tests."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
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
# RTX PRO 6000 Blackwell: 12 memory slices for 4 compute slices, and rules about the media engines.
RTX_PRO = (
    _profile(14, "1g.24gb", 1, 4, [0, 3, 6, 9], 3),
    _profile(21, "1g.24gb+me", 1, 1, [0, 3, 6, 9], 3),
    _profile(47, "1g.24gb+gfx", 1, 4, [0, 3, 6, 9], 3),
    _profile(65, "1g.24gb+me.all", 1, 1, [0, 3, 6, 9], 3),
    _profile(67, "1g.24gb-me", 1, 4, [0, 3, 6, 9], 3),
    _profile(5, "2g.48gb", 2, 2, [0, 6], 6),
    _profile(35, "2g.48gb+gfx", 2, 2, [0, 6], 6),
    _profile(64, "2g.48gb+me.all", 2, 1, [0, 6], 6),
    _profile(66, "2g.48gb-me", 2, 2, [0, 6], 6),
    _profile(0, "4g.96gb", 4, 1, [0], 12),
    _profile(32, "4g.96gb+gfx", 4, 1, [0], 12),
)
GPU = Gpu(0, "GPU-0", "A100", "0000:18:00.0", 0, 40 << 30, (8, 0), True, True, True, 0x20B0)


def instance(
    profiles: tuple[GiProfile, ...],
    name: str,
    start: int,
    number: int,
    cis: tuple[tuple[int, int], ...] | None = None,
) -> GpuInstance:
    """Return an instance with its compute instances, (slices, start), one of full size by default."""
    found = next(one for one in profiles if one.name == name)
    spans = ((found.slices, 0),) if cis is None else cis
    instances = tuple(ComputeInstance(at, size, begin) for at, (size, begin) in enumerate(spans))
    return GpuInstance(number, found.id, start, dict(found.placements)[start], instances)
