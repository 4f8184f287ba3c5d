# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The MIG planner against brute force, and case by case."""

from __future__ import annotations

import collections
import dataclasses
import itertools

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import ComputeInstance, Process
from ansible_collections.gpu.node.plugins.module_utils._base.mig_profile import (
    shapes,
    spread,
    usual_placements,
)
from ansible_collections.gpu.node.plugins.module_utils._mig.plan import GpuPlan, GpuState, plan_gpu
from ansible_collections.gpu.node.plugins.module_utils._mig.search import arrange
from ansible_collections.gpu.node.plugins.module_utils._node.users.busy import Busy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.library.grids import A30, A100, GPU, RTX_PRO, instance
from tests.fakes.library.oracle import (
    ALL_A30,
    ALL_A100,
    ALL_PLAIN_A100,
    ALL_RTX_PRO,
    PLAIN_A100,
    Grid,
    Placed,
    arranged,
    by_layout,
    layout,
    most_kept,
)


@pytest.mark.parametrize(
    ("profiles", "states"), [(A30, ALL_A30), (PLAIN_A100, ALL_PLAIN_A100)], ids=["A30", "A100"]
)
def test_every_change_from_every_state_keeps_as_much_as_possible(
    profiles: Grid, states: list[Placed]
) -> None:
    check_every_change(profiles, states, states)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_every_change_from_every_state_of_an_a100_with_every_profile(part: int) -> None:
    check_every_change(A100, ALL_A100[part::8], ALL_A100)


def check_every_change(profiles: Grid, starts: list[Placed], states: list[Placed]) -> None:
    goals = by_layout(states)
    legal = {goal: {tuple(sorted(one)) for one in possible} for goal, possible in goals.items()}
    for start, (goal, possible) in itertools.product(starts, goals.items()):
        result, kept = arranged(profiles, start, dict(goal))
        assert result in legal[goal]
        assert kept == most_kept(start, possible)


@pytest.mark.parametrize(
    ("profiles", "states"), [(A100, ALL_A100), (RTX_PRO, ALL_RTX_PRO)], ids=["A100", "RTX PRO"]
)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changes_with_every_profile_keep_as_much_as_possible(
    profiles: Grid, states: list[Placed], data: st.DataObject
) -> None:
    start, goal = data.draw(st.sampled_from(states)), data.draw(st.sampled_from(states))
    result, kept = arranged(profiles, start, layout(goal))
    possible = [one for one in states if layout(one) == layout(goal)]
    assert result in {tuple(sorted(one)) for one in possible}
    assert kept == most_kept(start, possible)


SPLIT = st.lists(
    st.sampled_from(["1c.2g.10gb", "1c.3g.20gb", "2c.3g.20gb", "1c.4g.20gb", "3g.20gb", "1g.5gb"]),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(SPLIT, SPLIT)
def test_a_plan_carried_out_leaves_nothing_to_do(first: list[str], second: list[str]) -> None:
    """Also with compute instances, and from a layout that another plan has made."""
    state = GpuState(GPU, A100, (), ())
    for names in (first, second):
        goal = dict(collections.Counter(names))
        try:
            plan = plan_gpu(state, True, goal)
        except NodeError:
            continue
        state = carried_out(state, plan)
        again = plan_gpu(state, True, goal)
        assert again.steps == ()
        assert again.before == again.after == plan.after
        assert sorted(map(state.shape_of, state.instances)) == sorted(shapes(goal))


def carried_out(state: GpuState, plan: GpuPlan) -> GpuState:
    """Do what a driver would, with its rule that nothing may overlap."""
    after = {one.id: one for one in state.instances}
    for step in plan.steps:
        params = step.params
        if step.action == "destroy_gi":
            del after[params["gi"]]
        elif step.action == "create_gi":
            number = max(after, default=0) + 100
            spans = spread(params["cis"], usual_placements(7))
            assert spans is not None
            after[number] = instance(A100, params["profile"], params["start"], number, spans)
        else:
            one = after[params["gi"]]
            cis = [ci for ci in one.cis if ci.id != params.get("ci", -1)]
            if step.action == "create_ci":
                number = max((ci.id for ci in cis), default=0) + 1
                cis.append(ComputeInstance(number, params["slices"], params["start"]))
            after[one.id] = dataclasses.replace(one, cis=tuple(cis))
            no_overlap([(ci.start, ci.slices) for ci in cis])
        no_overlap([(one.start, one.size) for one in after.values()])
    return dataclasses.replace(state, instances=tuple(after.values()))


def no_overlap(spans: list[tuple[int, int]]) -> None:
    for (start, size), (following, _size) in itertools.pairwise(sorted(spans)):
        assert start + size <= following


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([one.name for one in A100]), st.integers(1, 7), max_size=4))
def test_what_fits_is_what_brute_force_finds(wanted: dict[str, int]) -> None:
    if any(layout(one) == wanted for one in ALL_A100):
        arrange(A100, (), shapes(wanted))
    else:
        with pytest.raises(NodeError):
            arrange(A100, (), shapes(wanted))


@pytest.mark.parametrize(
    "goal",
    [
        {"1g.24gb+me": 2},
        {"1g.24gb+me.all": 1, "1g.24gb": 1},
        {"1g.24gb+me.all": 1, "2g.48gb+me.all": 1},
        {"1g.24gb+me": 1, "2g.48gb+me.all": 1},
        {"2g.48gb": 2, "1g.24gb": 1},
    ],
)
def test_media_engines_and_slices_are_not_given_twice(goal: dict[str, int]) -> None:
    with pytest.raises(NodeError, match="fit"):
        arrange(RTX_PRO, (), shapes(goal))
    assert arrange(RTX_PRO, (), shapes({"2g.48gb+me.all": 1, "1g.24gb-me": 2})).create


def test_order_in_which_a_greedy_driver_fails() -> None:
    found = arrange(A100, (), shapes({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}))
    assert len(found.create) == 4


def test_new_instances_leave_room_for_the_large_ones() -> None:
    found = arrange(A100, (), shapes({"1g.5gb": 2}))
    assert sorted(at for _one, at, _shape in found.create) == [4, 6]
    found = arrange(A100, (), shapes({"3g.20gb": 1}))
    assert [at for _one, at, _shape in found.create] == [4]


def test_profile_that_the_gpu_does_not_offer_is_refused_with_what_it_offers() -> None:
    with pytest.raises(NodeError, match=r"does not have the profile 1g\.11gb.*has 1g\.10gb"):
        arrange(A100, (), shapes({"1g.11gb": 7}))


def test_running_instance_stays_and_a_slice_is_added() -> None:
    running = instance(A100, "3g.20gb", 4, 1)
    process = Process(7, "train", "GPU-0", 1, 0)
    state = GpuState(GPU, A100, (running,), (process,))
    plan = plan_gpu(state, True, {"3g.20gb": 1, "1g.5gb": 2})
    assert [step.action for step in plan.steps] == ["create_gi", "create_gi"]
    assert plan.staying == (1,)


def test_busy_instance_that_would_have_to_go_is_named_with_its_process_and_pod() -> None:
    process = Process(4711, "train", "GPU-0", 1, 0, where="pod ml/train-0")
    state = GpuState(GPU, A100, (instance(A100, "3g.20gb", 4, 1),), (process,))
    words = r"GPU 0 .*3g\.20gb .*cannot be destroyed.*4711 \(train, pod ml/train-0\)"
    for enabled, goal in ((True, {"7g.40gb": 1}), (False, {})):
        with pytest.raises(Busy, match=words):
            plan_gpu(state, enabled, goal)


def test_busy_instances_are_kept_before_idle_ones() -> None:
    idle, busy = instance(A100, "1g.5gb", 0, 7), instance(A100, "1g.5gb", 5, 12)
    found = arrange(A100, (idle, busy), shapes({"1g.5gb": 1}), busy={(12, 0)})
    assert [one.instance for one in found.keep] == [busy]


def test_busy_compute_instance_stays_when_its_gpu_instance_is_shared_out_anew() -> None:
    whole = instance(A100, "3g.20gb", 0, 2)
    split = instance(A100, "3g.20gb", 4, 1, ((1, 0), (1, 1), (1, 2)))
    process = Process(9, "serve", "GPU-0", 1, 1)
    state = GpuState(GPU, A100, (whole, split), (process,))
    plan = plan_gpu(state, True, {"3g.20gb": 1, "1c.3g.20gb": 2})
    assert [step.action for step in plan.steps] == ["destroy_ci"]
    assert plan.steps[0].params["gi"] == 1
    assert plan.steps[0].params["ci"] != 1
    with pytest.raises(Busy, match=r"compute instance 1 of 3g\.20gb"):
        plan_gpu(state, True, {"3g.20gb": 2})


def test_instance_without_compute_instance_is_completed() -> None:
    bare = instance(A100, "7g.40gb", 0, 0, ())
    plan = plan_gpu(GpuState(GPU, A100, (bare,), ()), True, {"7g.40gb": 1})
    assert [step.action for step in plan.steps] == ["create_ci"]
    assert plan.steps[0].params["slices"] == 7


def test_gpu_that_cannot_be_partitioned() -> None:
    gpu = dataclasses.replace(GPU, mig_capable=False, mig_current=False, mig_pending=False)
    state = GpuState(gpu, (), (), ())
    assert plan_gpu(state, False, {}).steps == ()
    with pytest.raises(NodeError, match="can't be partitioned"):
        plan_gpu(state, True, {"1g.5gb": 1})


def test_pending_mode_is_reported_or_reset_as_is_allowed() -> None:
    gpu = dataclasses.replace(GPU, mig_current=False)
    state = GpuState(gpu, A100, (), ())
    plan = plan_gpu(state, True, {"7g.40gb": 1})
    assert plan.steps == ()
    assert "waits for a reset of the GPU or a reboot" in plan.pending
    plan = plan_gpu(state, True, {"7g.40gb": 1}, reset=True)
    assert [step.action for step in plan.steps] == ["reset_gpu"]
    assert plan.more
    busy = dataclasses.replace(state, processes=(Process(5, "x", "GPU-0"),))
    with pytest.raises(Busy, match="can't be reset"):
        plan_gpu(busy, True, {"7g.40gb": 1}, reset=True)


def test_switch_that_waits_and_is_not_wanted_any_more_is_taken_back() -> None:
    gpu = dataclasses.replace(GPU, mig_pending=False)
    plan = plan_gpu(GpuState(gpu, A100, (), ()), True, {})
    assert [(one.action, one.params["on"]) for one in plan.steps] == [("set_mig_mode", True)]


def test_same_name_has_another_id_on_another_gpu() -> None:
    other = tuple(dataclasses.replace(one, id=one.id + 100) for one in A100)
    for profiles in (A100, other):
        running = instance(profiles, "3g.20gb", 0, 2)
        plan = plan_gpu(GpuState(GPU, profiles, (running,), ()), True, {"3g.20gb": 2})
        assert plan.staying == (2,)
        assert [step.params["start"] for step in plan.steps] == [4]


def test_older_drivers_tell_profiles_only_in_mig_mode() -> None:
    gpu = dataclasses.replace(GPU, mig_current=False, mig_pending=False)
    plan = plan_gpu(GpuState(gpu, (), (), ()), True, {"7g.40gb": 1})
    assert [step.action for step in plan.steps] == ["set_mig_mode"]
    assert plan.more


def test_picture_shows_the_grid() -> None:
    state = GpuState(GPU, A100, (instance(A100, "3g.20gb", 4, 1),), ())
    plan = plan_gpu(state, True, {"3g.20gb": 1, "1g.5gb": 1, "1c.2g.10gb": 2})
    grid = plan.after.splitlines()[1]
    assert grid.index("1g.5gb") < grid.index("3g.20gb")
    assert "2g.10gb (1c + 1c) at placement" in plan.after
    assert len(grid.strip()) == 72
