# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the kubelet has given to a pod is not taken by a plan, whether a process is there or not."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Process
from ansible_collections.gpu.node.plugins.module_utils._mig.plan import GpuState, plan_gpu
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Holder
from ansible_collections.gpu.node.plugins.module_utils._node.users.busy import Busy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.library.grids import A30, A100, GPU, instance
from tests.fakes.library.oracle import ALL_A30, Placed, layout

WHO = "pod default/idle (container main) with nvidia.com/mig-1g.6gb MIG-1"


def placed(start: Placed, held: set[int]) -> GpuState:
    """Return a GPU with instances, of which those with these numbers were given to a pod."""
    instances = tuple(
        instance(A30, name, at, number) for number, (name, at) in enumerate(sorted(start))
    )
    pods = tuple(Holder(WHO, one.id, 0) for one in instances if one.id in held)
    return GpuState(GPU, A30, instances, (), holders=pods)


@settings(max_examples=300, deadline=None)
@given(
    start=st.sampled_from(ALL_A30),
    goal=st.sampled_from(ALL_A30),
    held=st.sets(st.integers(0, 3)),
)
def test_no_plan_destroys_what_a_pod_was_given(start: Placed, goal: Placed, held: set[int]) -> None:
    """A process on the same instances leads to the same plan, or the same refusal."""
    state = placed(start, held)
    processes = tuple(Process(5, "x", GPU.uuid, one.gi_id, 0) for one in state.holders)
    like = dataclasses.replace(state, holders=(), processes=processes)
    try:
        plan = plan_gpu(state, True, layout(goal))
    except Busy:
        with pytest.raises(Busy) as refused:
            plan_gpu(state, True, layout(goal))
        assert refused.value.details["blocked_by"] == [WHO]
        with pytest.raises(Busy):
            plan_gpu(like, True, layout(goal))
        return
    assert not {one.gi_id for one in state.holders} & set(plan.destroyed)
    assert plan.steps == plan_gpu(like, True, layout(goal)).steps


def test_a_layout_is_arranged_around_what_pods_have() -> None:
    first, second = instance(A100, "1g.5gb", 0, 7), instance(A100, "1g.5gb", 5, 12)
    state = GpuState(GPU, A100, (first, second), (), holders=(Holder(WHO, 12, 0),))
    assert plan_gpu(state, True, {"1g.5gb": 1}).destroyed == (7,)


def test_a_whole_gpu_that_a_pod_has_keeps_its_mode() -> None:
    gpu = dataclasses.replace(GPU, mig_current=False, mig_pending=False)
    state = GpuState(gpu, A100, (), (), holders=(Holder(WHO),))
    assert plan_gpu(state, False, {}).steps == ()
    with pytest.raises(Busy, match=r"can't be switched on.*pod default/idle"):
        plan_gpu(state, True, {"7g.40gb": 1})
    waiting = dataclasses.replace(state, gpu=dataclasses.replace(gpu, mig_pending=True))
    with pytest.raises(Busy, match="can't be reset"):
        plan_gpu(waiting, True, {"7g.40gb": 1}, reset=True)


def test_an_instance_of_which_only_the_whole_is_known_keeps_its_compute_instances() -> None:
    split = instance(A100, "3g.20gb", 4, 1, ((1, 0), (1, 1), (1, 2)))
    state = GpuState(GPU, A100, (split,), (), holders=(Holder(WHO, 1),))
    with pytest.raises(NodeError, match="cannot be destroyed"):
        plan_gpu(state, True, {"3g.20gb": 1})
