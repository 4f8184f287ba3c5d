# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What GPUs in MIG mode tell of themselves: those of the simulator's catalog, and one with media engines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_plugin._shared._base.gpu import ComputeInstance, GiProfile, GpuInstance, MigDevice
from gpu_plugin._shared._base.mig_profile import parse
from gpu_plugin.model.inventory import GpuView, Layout
from nvsim.catalog import product

from tests.fakes.daemon.gpu_builders import gpu

Place = tuple[GiProfile, int]


def _profile(number: int, name: str, most: int, starts: tuple[int, ...], size: int) -> GiProfile:
    places = tuple((at, size) for at in starts)
    return GiProfile(number, number, name, parse(name).g, most, 8000 * size, places)


def _of(name: str) -> tuple[GiProfile, ...]:
    return tuple(
        GiProfile(
            one.id,
            one.enum,
            one.name,
            one.slices,
            one.max,
            one.memory_mib,
            tuple((at, one.size) for at in one.placements),
        )
        for one in product(name).profiles
    )


ONES, TWOS = (0, 3, 6, 9), (0, 6)
GRIDS = {name: _of(name) for name in ("a100-40", "a30", "h100-80", "h200-141", "b200")}
GRIDS["rtx-pro-6000"] = (
    _profile(14, "1g.24gb", 4, ONES, 3),
    _profile(21, "1g.24gb+me", 1, ONES, 3),
    _profile(47, "1g.24gb+gfx", 4, ONES, 3),
    _profile(65, "1g.24gb+me.all", 1, ONES, 3),
    _profile(67, "1g.24gb-me", 4, ONES, 3),
    _profile(5, "2g.48gb", 2, TWOS, 6),
    _profile(35, "2g.48gb+gfx", 2, TWOS, 6),
    _profile(64, "2g.48gb+me.all", 1, TWOS, 6),
    _profile(66, "2g.48gb-me", 2, TWOS, 6),
    _profile(0, "4g.96gb", 1, (0,), 12),
    _profile(32, "4g.96gb+gfx", 1, (0,), 12),
)
# No GPU is known to be so: fewer instances than its memory has room for, and several with +me.
GRIDS["narrow"] = (
    _profile(19, "1g.10gb", 3, tuple(range(7)), 1),
    _profile(20, "1g.10gb+me", 2, tuple(range(7)), 1),
    _profile(15, "2g.20gb+me", 1, (0, 2, 4), 2),
    _profile(14, "3g.40gb", 1, (0, 4), 4),
    _profile(0, "7g.80gb", 1, (0,), 8),
)


def every(profiles: Iterable[GiProfile]) -> list[Place]:
    """Return all placements of all profiles."""
    return [(one, start) for one in profiles for start, _size in one.placements]


def size(place: Place) -> int:
    profile, start = place
    return dict(profile.placements)[start]


def instances(places: Iterable[Place]) -> tuple[GpuInstance, ...]:
    """Return GPU instances there, each with one compute instance."""
    return tuple(
        GpuInstance(number, one[0].id, one[1], size(one), (ComputeInstance(0, one[0].slices),))
        for number, one in enumerate(places, 1)
    )


def view(
    profiles: tuple[GiProfile, ...], standing: Iterable[Place] = (), index: int = 0
) -> GpuView:
    """Return a GPU in MIG mode where these instances stand."""
    made = instances(standing)
    names = {one.id: one for one in profiles}
    migs = tuple(
        MigDevice(
            f"MIG-{index}-{one.id}",
            f"GPU-{index}",
            index,
            number,
            one.id,
            0,
            names[one.profile_id].name,
            names[one.profile_id].memory_mb << 20,
        )
        for number, one in enumerate(made)
    )
    found = replace(gpu(index, mig=True))
    return GpuView(found, migs, 0, layout=Layout(profiles, made))
