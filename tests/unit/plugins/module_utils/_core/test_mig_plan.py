# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The MIG planner against brute force, and case by case."""

from __future__ import annotations

import collections
import dataclasses
import itertools

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._core.mig_plan import GpuState, plan_gpu
from ansible_collections.gpu.node.plugins.module_utils._core.mig_search import arrange
from ansible_collections.gpu.node.plugins.module_utils._nvml.api import (
    ComputeInstance,
    GiProfile,
    GpuInstance,
    Process,
)
from grids import A30, A100, GPU, instance
from hypothesis import given, settings
from hypothesis import strategies as st

Grid = tuple[GiProfile, ...]
Placed = tuple[tuple[str, int], ...]


def everything(profiles: Grid) -> list[Placed]:
    """Return every legal set of instances of a GPU, by trying them all."""
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
            found += grow([*chosen, places[at]], at + 1)
        return found

    return [tuple((one.name, start) for one, start, _size in chosen) for chosen in grow([], 0)]


def layout(placed: Placed) -> dict[str, int]:
    return dict(collections.Counter(name for name, _start in placed))


def instances(profiles: Grid, placed: Placed) -> list[GpuInstance]:
    return [instance(profiles, name, start, number) for number, (name, start) in enumerate(placed)]


def most_kept(profiles: Grid, start: Placed, wanted: dict[str, int], goals: list[Placed]) -> int:
    return max(len(set(goal) & set(start)) for goal in goals if layout(goal) == wanted)


ALL_A30 = everything(A30)
ALL_A100 = everything(A100)


def test_every_change_of_an_a30_keeps_as_much_as_possible() -> None:
    layouts = {tuple(sorted(layout(one).items())) for one in ALL_A30}
    for start, goal in itertools.product(ALL_A30, layouts):
        found = arrange(A30, instances(A30, start), dict(goal))
        result = {(p.name, at) for p, at in found.create}
        result |= {start[one.id] for one in found.keep}
        assert layout(tuple(result)) == dict(goal)
        assert tuple(sorted(result)) in {tuple(sorted(one)) for one in ALL_A30}
        assert len(found.keep) == most_kept(A30, start, dict(goal), ALL_A30)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(ALL_A100), st.sampled_from(ALL_A100))
def test_changes_of_an_a100_keep_as_much_as_possible(start: Placed, goal: Placed) -> None:
    found = arrange(A100, instances(A100, start), layout(goal))
    result = {(p.name, at) for p, at in found.create} | {start[one.id] for one in found.keep}
    assert layout(tuple(result)) == layout(goal)
    assert len(found.keep) == most_kept(A100, start, layout(goal), ALL_A100)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL_A100), st.sampled_from(ALL_A100))
def test_a_plan_carried_out_leaves_nothing_to_do(start: Placed, goal: Placed) -> None:
    state = GpuState(GPU, A100, tuple(instances(A100, start)), ())
    plan = plan_gpu(state, True, layout(goal))
    after = {one.id: one for one in state.instances}
    for step in plan.steps:
        if step.action == "destroy_gi":
            del after[step.params["gi"]]
        else:
            number = max(after, default=0) + 100
            after[number] = instance(A100, step.params["profile"], step.params["start"], number)
            spans = sorted((one.start, one.start + one.size) for one in after.values())
            assert all(end <= begin for (_begin, end), (begin, _end) in itertools.pairwise(spans))
    done = dataclasses.replace(state, instances=tuple(after.values()))
    assert plan_gpu(done, True, layout(goal)).steps == ()


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([one.name for one in A100]), st.integers(1, 7), max_size=4))
def test_what_fits_is_what_brute_force_finds(wanted: dict[str, int]) -> None:
    possible = any(layout(one) == wanted for one in ALL_A100)
    if possible:
        arrange(A100, (), wanted)
    else:
        with pytest.raises(NodeError):
            arrange(A100, (), wanted)


def test_order_in_which_a_greedy_driver_fails() -> None:
    found = arrange(A100, (), {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1})
    assert len(found.create) == 4


def test_profile_that_the_gpu_does_not_offer_is_refused_with_what_it_offers() -> None:
    with pytest.raises(NodeError, match=r"does not offer the profile 1g\.11gb.*offers 1g\.10gb"):
        arrange(A100, (), {"1g.11gb": 7})


def test_running_instance_stays_and_a_slice_is_added() -> None:
    running = instance(A100, "3g.20gb", 4, 1)
    process = Process(7, "train", "GPU-0", 1, 0)
    state = GpuState(GPU, A100, (running,), (process,))
    plan = plan_gpu(state, True, {"3g.20gb": 1, "1g.5gb": 2})
    assert [step.action for step in plan.steps] == ["create_gi", "create_gi"]
    assert plan.kept == 1


def test_busy_instance_that_would_have_to_go_is_named_with_its_process() -> None:
    process = Process(4711, "train", "GPU-0", 1, 0)
    state = GpuState(GPU, A100, (instance(A100, "3g.20gb", 4, 1),), (process,))
    with pytest.raises(NodeError, match=r"GPU 0 .*cannot be destroyed.*4711 \(train\)"):
        plan_gpu(state, True, {"7g.40gb": 1})
    with pytest.raises(NodeError, match="4711"):
        plan_gpu(state, False, {})


def test_busy_instances_are_kept_before_idle_ones() -> None:
    idle, busy = instance(A100, "1g.5gb", 0, 7), instance(A100, "1g.5gb", 5, 12)
    found = arrange(A100, (idle, busy), {"1g.5gb": 1}, busy={12})
    assert found.keep == (busy,)


def test_instance_without_compute_instance_is_completed() -> None:
    bare = dataclasses.replace(instance(A100, "7g.40gb", 0, 0), cis=())
    plan = plan_gpu(GpuState(GPU, A100, (bare,), ()), True, {"7g.40gb": 1})
    assert [step.action for step in plan.steps] == ["create_ci"]
    assert ComputeInstance(0, 7) not in bare.cis


def test_gpu_that_cannot_be_partitioned() -> None:
    gpu = dataclasses.replace(GPU, mig_capable=False, mig_current=False, mig_pending=False)
    state = GpuState(gpu, (), (), ())
    assert plan_gpu(state, False, {}).steps == ()
    with pytest.raises(NodeError, match="cannot be partitioned"):
        plan_gpu(state, True, {"1g.5gb": 1})


def test_pending_mode_is_reported_and_nothing_is_done() -> None:
    gpu = dataclasses.replace(GPU, mig_current=False)
    plan = plan_gpu(GpuState(gpu, A100, (), ()), True, {"7g.40gb": 1})
    assert plan.steps == ()
    assert "waits for a reset or a reboot" in plan.pending


def test_older_drivers_tell_profiles_only_in_mig_mode() -> None:
    gpu = dataclasses.replace(GPU, mig_current=False, mig_pending=False)
    plan = plan_gpu(GpuState(gpu, (), (), ()), True, {"7g.40gb": 1})
    assert [step.action for step in plan.steps] == ["set_mig_mode"]
    assert plan.more
