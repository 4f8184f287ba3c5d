# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Counters of a GPU in MIG mode: they exclude what the hardware excludes, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.gpu import GiProfile
from gpu_plugin._shared._base.mig_profile import Shape
from gpu_plugin._shared._mig.search import arrange
from gpu_plugin.slices.grid import MAX_COUNTERS, Grid
from hypothesis import given
from hypothesis import strategies as st
from nvsim.api.mig import fits
from nvsim.catalog import product
from nvsim.state import Gi

from tests.fakes.daemon.mig_grids import GRIDS, Place, every, instances, size

NAMES = st.sampled_from(sorted(GRIDS))
CATALOG = sorted(set(GRIDS) - {"rtx-pro-6000", "narrow"})


def hardware(profiles: Sequence[GiProfile], places: Sequence[Place]) -> bool:
    """Whether the planner, which has the hardware's rules, takes all of these places at once."""
    spans = Counter(number for one in places for number in range(one[1], one[1] + size(one)))
    if max(spans.values(), default=0) > 1:
        return False
    try:
        arrange(
            profiles, (), [Shape(profile.name, (profile.slices,)) for profile, _start in places]
        )
    except NodeError:
        return False
    return True


def counted(grid: Grid, places: Iterable[Place]) -> bool:
    """Whether a scheduler that counts gives all of these places away."""
    uses = {(profile.id, start): uses for profile, start, _size, uses in grid.placements()}
    taken: Counter[str] = Counter()
    for profile, start in places:
        if (profile.id, start) not in uses:
            return False
        taken.update(uses[profile.id, start])
    return all(taken[name] <= grid.counters[name] for name in taken)


def some(draw: Any, profiles: Sequence[GiProfile], beside: Sequence[Place] = ()) -> list[Place]:
    """Places that can all be there at once, beside others."""
    found: list[Place] = []
    for place in draw(st.permutations(every(profiles)))[: draw(st.integers(0, 30))]:
        if hardware(profiles, [*beside, *found, place]):
            found.append(place)
    return found


@given(st.data())
def test_counters_allow_what_the_hardware_does_and_no_more(data: Any) -> None:
    profiles = GRIDS[data.draw(NAMES)]
    standing = some(data.draw, profiles)
    chosen = some(data.draw, profiles, standing)
    grid = Grid(profiles, instances(standing))
    assert counted(grid, chosen)
    for place in every(profiles):
        together = hardware(profiles, [*standing, *chosen, place])
        assert counted(grid, [*chosen, place]) == together, place


@given(st.sampled_from(CATALOG), st.data())
def test_what_is_counted_can_be_created_in_any_order(name: str, data: Any) -> None:
    profiles, gpu = GRIDS[name], SimpleNamespace(product=product(name))
    there: list[Gi] = []
    chosen: list[Place] = []
    grid = Grid(profiles)
    for place in data.draw(st.permutations(every(profiles))):
        profile = gpu.product.profile(place[0].id)
        allowed = counted(grid, [*chosen, place])
        there_is_room = fits(gpu, profile, place[1], there)
        if (
            name != "a30"
        ):  # the simulator does not know that its two +me profiles want the same engine
            assert allowed == there_is_room, place
        if allowed:
            assert there_is_room, place
            chosen.append(place)
            there.append(Gi(len(there), profile.id, place[1], profile.size))


def test_a_gpu_has_few_counters_and_all_are_taken() -> None:
    for name in sorted(GRIDS):
        grid = Grid(GRIDS[name])
        taken = {key for _profile, _start, _size, uses in grid.placements() for key in uses}
        assert len(grid.counters) <= MAX_COUNTERS, name
        assert taken == set(grid.counters), name
        assert min(grid.counters.values()) > 0, name


def test_the_counters_of_an_h100() -> None:
    grid = Grid(GRIDS["h100-80"])
    slices = {f"memory-slice-{number}": 1 for number in range(8)}
    assert grid.counters == {**slices, "compute-slices": 7, "media-extensions": 1}
    uses = {(profile.name, start): uses for profile, start, _size, uses in grid.placements()}
    assert uses["1g.10gb+me", 3] == {
        "memory-slice-3": 1,
        "compute-slices": 1,
        "media-extensions": 1,
    }
    assert uses["2g.20gb", 4] == {"memory-slice-4": 1, "memory-slice-5": 1, "compute-slices": 2}
    assert len(uses) == 25


def test_an_instance_that_stands_takes_its_part_for_good() -> None:
    profiles = GRIDS["h100-80"]
    by_name = {one.name: one for one in profiles}
    grid = Grid(profiles, instances([(by_name["3g.40gb"], 0), (by_name["1g.10gb+me"], 4)]))
    assert grid.counters == {
        **{f"memory-slice-{number}": 1 for number in (5, 6, 7)},
        "compute-slices": 3,
    }
    places = {(profile.name, start) for profile, start, _size, _uses in grid.placements()}
    assert places == {("1g.10gb", 5), ("1g.10gb", 6), ("1g.20gb", 6)}


def test_more_rules_than_counters_place_nothing() -> None:
    wide = GiProfile(1, 1, "1g.1gb", 1, 1, 1000, tuple((at, 1) for at in range(40)))
    grid = Grid((wide,))
    assert (grid.counters, list(grid.placements())) == ({}, [])
