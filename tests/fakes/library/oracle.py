# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU can hold at all, by trying everything: the measure of the MIG planner."""

from __future__ import annotations

import collections

from ansible_collections.gpu.node.plugins.module_utils._base.gpu import GiProfile, GpuInstance
from ansible_collections.gpu.node.plugins.module_utils._base.mig_profile import shapes
from ansible_collections.gpu.node.plugins.module_utils._mig.search import arrange

from tests.fakes.library.grids import A30, A100, RTX_PRO, instance

Grid = tuple[GiProfile, ...]
Placed = tuple[tuple[str, int], ...]


def engines_do(names: list[str]) -> bool:
    """Return whether the media engines do for profiles; a second statement of the planner's rule."""
    greedy = [one for one in names if one.endswith("+me.all")]
    extra = [one for one in names if one.endswith("+me")]
    others = [one for one in names if one not in greedy and not one.endswith("-me")]
    return len(greedy) <= 1 and len(extra) <= 1 and not (greedy and others)


def everything(profiles: Grid, *, engines: bool = False) -> list[Placed]:
    """Return every legal set of instances of a GPU, by trying them all; with or without engine rules."""
    most = max(one.slices for one in profiles)
    places = [(one, at, size) for one in profiles for at, size in one.placements]

    def grow(
        chosen: list[tuple[GiProfile, int, int]], rest: int
    ) -> list[list[tuple[GiProfile, int, int]]]:
        found = [chosen]
        for at in range(rest, len(places)):
            one, start, size = places[at]
            if any(start < s + z and s < start + size for _one, s, z in chosen):
                continue
            if sum(p is one for p, _s, _z in chosen) >= one.max_count:
                continue
            if sum(p.slices for p, _s, _z in chosen) + one.slices > most:
                continue
            words = [p.name for p, _s, _z in [*chosen, places[at]]]
            if engines and not engines_do(words):
                continue
            found += grow([*chosen, places[at]], at + 1)
        return found

    return [tuple((one.name, start) for one, start, _size in chosen) for chosen in grow([], 0)]


def layout(placed: Placed) -> dict[str, int]:
    return dict(collections.Counter(name for name, _start in placed))


def instances(profiles: Grid, placed: Placed) -> list[GpuInstance]:
    return [instance(profiles, name, start, number) for number, (name, start) in enumerate(placed)]


def most_kept(start: Placed, goals: list[Placed]) -> int:
    return max(len(set(goal) & set(start)) for goal in goals)


def arranged(profiles: Grid, start: Placed, goal: dict[str, int]) -> tuple[Placed, int]:
    """Return what stands on the GPU after the plan, and how many instances stayed."""
    found = arrange(profiles, instances(profiles, start), shapes(goal))
    result = [(one.name, at) for one, at, _shape in found.create]
    result += [start[one.instance.id] for one in found.keep]
    return tuple(sorted(result)), len(found.keep)


def by_layout(states: list[Placed]) -> dict[frozenset[tuple[str, int]], list[Placed]]:
    found: dict[frozenset[tuple[str, int]], list[Placed]] = {}
    for one in states:
        found.setdefault(frozenset(layout(one).items()), []).append(one)
    return found


PLAIN_A100 = tuple(one for one in A100 if one.name not in ("1g.5gb+me", "1g.10gb"))
ALL_A30, ALL_PLAIN_A100 = everything(A30), everything(PLAIN_A100)
ALL_A100, ALL_RTX_PRO = everything(A100), everything(RTX_PRO, engines=True)
