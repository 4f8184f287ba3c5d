# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run does next: nothing weaker than the verdict, nothing that was not allowed, and nothing to an operator's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import OPERATOR, REPAIR
from ansible_collections.gpu.node.plugins.module_utils._repair import case as repair_case
from ansible_collections.gpu.node.plugins.module_utils._repair import plan
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    Boot,
    RepairCase,
    RepairCases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.plan import (
    NEVER,
    WHEN_NEEDED,
    GpuPlan,
    Next,
    NodePlan,
    RepairGpu,
    RepairObservation,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    Action,
    Answer,
    Attempt,
    GpuSigns,
    NodeSigns,
    SXid,
    Virtual,
    Xid,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import judge_node
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HGX = NodeSigns(580, Virtual.NONE, nvswitch=True, nvlink=4, fabric_manager=True)
NVL5 = NodeSigns(580, Virtual.NONE, nvswitch=True, nvlink=5, fabric_manager=True)
A, B, C = "GPU-a", "GPU-b", "GPU-c"
BOOT = Boot("b-1", "7")
NO_VERDICT = judge_node(HGX, [], NOW)
OPEN = RepairCase(
    "1650", "0000:18:00.0", Action.RESET, ("XID 48",), NOW - 60, BOOT, repair_case.FENCED
)


def gpu(uuid: str = A, recovery: int = 0, *, architecture: str = "hopper", **more: Any) -> GpuSigns:
    return GpuSigns(uuid, architecture, signs=FaultSigns(recovery), **more)


def found(
    *gpus: RepairGpu,
    node: NodeSigns = HGX,
    cases: RepairCases = repair_case.NO_CASES,
    reboot: str = NEVER,
) -> tuple[GpuPlan, ...]:
    seen = RepairObservation(node, gpus, cases, BOOT, NOW)
    return plan.plan_gpus(seen, judge_node(node, [one.signs for one in gpus], NOW), reboot)


def work(*gpus: RepairGpu, **more: Any) -> NodePlan:
    return plan.plan_node(found(*gpus, **more))


def test_nothing_is_done_where_nothing_is_wrong() -> None:
    assert work(RepairGpu(gpu()), RepairGpu(gpu(B, xids=(Xid(13, NOW),)))) == NodePlan()


def test_a_gpu_that_wants_a_reset_is_fenced_and_reset_alone() -> None:
    well, sick = RepairGpu(gpu(B), pods=("team/other",)), RepairGpu(gpu(A, 1), pods=("team/train",))
    assert work(well, sick) == NodePlan(
        Next.RESET, cases=(A,), new=(A,), fence=(A,), reset=(A,), prove=(A,), evict=("team/train",)
    )
    assert plan.plan_node(found(well, sick), fences=False).cordon


def test_gpus_that_are_reset_together_take_the_pods_of_all_and_the_node_is_cordoned() -> None:
    bridged = NodeSigns(580, Virtual.NONE, nvswitch=False)
    pair = [
        RepairGpu(gpu(A, 1, architecture="volta", peers=(B,)), pods=("team/a",)),
        RepairGpu(gpu(B, architecture="volta", peers=(A,)), pods=("team/b",)),
        RepairGpu(gpu(C, architecture="volta", peers=()), pods=("team/c",)),
    ]
    said = work(*pair, node=bridged)
    assert (said.reset, said.together, said.with_them) == ((A,), True, (B,))
    assert (said.evict, said.cordon, said.fence) == (("team/a", "team/b"), True, (A,))


def test_a_reset_of_all_for_a_switch_is_of_every_gpu() -> None:
    trunk = NodeSigns(
        580,
        Virtual.NONE,
        nvswitch=True,
        nvlink=4,
        fabric_manager=True,
        sxids=(SXid(12, True, False),),
    )
    said = work(RepairGpu(gpu(A)), RepairGpu(gpu(B)), node=trunk)
    assert (said.reset, said.fence, said.together) == ((A, B), (A, B), True)


def test_no_gpu_is_reset_while_another_is_lost_as_nvidia_smi_refuses_that() -> None:
    lost, sick = RepairGpu(gpu(answer=Answer.LOST)), RepairGpu(gpu(B, 1))
    _lost, waits = found(lost, sick)
    assert waits.next is Next.WAIT
    assert "while one is lost (GPU-a): reboot the node" in waits.step
    assert work(lost, sick) == NodePlan(Next.WAIT, cases=(A, B), new=(A, B), fence=(A, B))
    aside = RepairGpu(gpu(answer=Answer.LOST), fenced_by=OPERATOR)
    assert work(aside, sick, reboot=WHEN_NEEDED).reset == ()
    assert work(RepairGpu(gpu(present=False)), sick).reset == (B,)


def test_a_gpu_whose_fabric_is_sick_stays_in_service_and_a_person_is_told() -> None:
    (one,) = found(RepairGpu(gpu(recovery=5)))
    assert one.next is Next.NOTHING
    assert "recover the fabric or IMEX domain" in one.step
    assert work(RepairGpu(gpu(recovery=5))) == NodePlan()


def test_a_reboot_is_made_only_where_it_is_allowed() -> None:
    lost = RepairGpu(gpu(answer=Answer.LOST))
    (waits,) = found(lost)
    assert waits.next is Next.WAIT
    assert "repair_reboot=when_needed" in waits.step
    assert plan.plan_node([waits]) == NodePlan(Next.WAIT, cases=(A,), new=(A,), fence=(A,))
    said = work(lost, RepairGpu(gpu(B, 1)), reboot=WHEN_NEEDED)
    assert said == NodePlan(
        Next.REBOOT, cases=(A, B), new=(A, B), fence=(A, B), reboot=(A,), prove=(A,), cordon=True
    )


def test_what_may_end_by_itself_is_waited_for() -> None:
    (waits,) = found(RepairGpu(gpu(A, 4), pods=("team/train",)))
    assert (waits.next, "team/train" in waits.step) == (Next.WAIT, True)
    assert work(RepairGpu(gpu(A, 4))).reset == (A,)


@pytest.mark.parametrize("fenced_by", ["", REPAIR])
@pytest.mark.parametrize(
    "stage",
    [
        repair_case.PLANNED,
        repair_case.FENCED,
        repair_case.RESET,
        repair_case.PROVED,
        repair_case.FAILED,
    ],
)
def test_a_gpu_with_a_case_of_which_nothing_is_wrong_any_more_is_proved(
    stage: str, fenced_by: str
) -> None:
    cases = RepairCases(None, {A: OPEN._replace(stage=stage)})
    said = work(RepairGpu(gpu(), fenced_by=fenced_by), cases=cases)
    assert said == NodePlan(Next.PROVE, cases=(A,), prove=(A,))


def test_what_an_operator_has_set_aside_is_neither_reset_nor_given_back() -> None:
    held = RepairGpu(gpu(A, 1), fenced_by=OPERATOR, pods=("team/train",))
    assert work(held) == NodePlan(Next.WAIT)
    assert work(RepairGpu(gpu(A), fenced_by=OPERATOR)) == NodePlan()
    assert work(held._replace(signs=gpu()), cases=RepairCases(None, {A: OPEN})) == NodePlan(
        Next.WAIT
    )


def test_the_case_of_a_gpu_that_was_replaced_is_closed() -> None:
    gone = RepairGpu(gpu(A, present=False), fenced_by=REPAIR, replaced_by=B)
    said = work(gone, RepairGpu(gpu(B)), cases=RepairCases(None, {A: OPEN}))
    assert said == NodePlan(Next.CLOSE, close=(A,))


def test_a_gpu_of_which_only_the_place_is_known_is_set_aside_nowhere_and_has_a_case() -> None:
    place = "0000:2a:00.0"
    said = work(RepairGpu(gpu(place, present=False), place))
    assert said == NodePlan(Next.WAIT, cases=(place,), new=(place,))


def test_attempts_that_worked_say_since_when_the_log_counts() -> None:
    tried = (Attempt(Action.RESET, 10.0, repair_case.DONE), Attempt(Action.RESET, 20.0, "refused"))
    assert OPEN._replace(attempts=tried).reset_at == 10.0
    assert OPEN.reset_at == 0.0


def test_a_clock_that_was_set_back_starts_nothing() -> None:
    cases = RepairCases(None, {A: OPEN._replace(since=NOW + 3600)})
    assert "3600 s behind" in plan.clock_problem(RepairObservation(cases=cases, current_time=NOW))
    assert not plan.clock_problem(
        RepairObservation(cases=cases, current_time=NOW + 3600 - repair_case.TOLERANCE)
    )


def test_a_person_is_told_of_each_gpu_what_was_found_tried_and_comes_next() -> None:
    tried = (Attempt(Action.RESET, NOW - 120, "in use by another client"),)
    case = OPEN._replace(attempts=tried)
    lost = gpu(answer=Answer.LOST, attempts=case.counted_attempts(BOOT))
    told = found(
        RepairGpu(lost, "0000:18:00.0", number=3),
        RepairGpu(gpu(B)),
        cases=RepairCases(None, {A: case}),
    )
    first, following, before = plan.describe(told, plan.plan_node(told), NO_VERDICT)
    assert first.startswith("GPU 3 (GPU-a, 0000:18:00.0): reboot: NVML says that the GPU is lost")
    assert following.startswith("  next: no reset can help")
    assert before == (
        "  before: 1 attempt, the last a reset at 2027-01-15T07:58:00Z: in use by another client"
    )


def test_a_person_is_told_of_the_node_what_no_gpu_has() -> None:
    switch = dataclasses.replace(HGX, sxids=(SXid(12028, True, None), SXid(10, False, None)))
    seen = RepairObservation(
        switch, (RepairGpu(gpu(A)), RepairGpu(gpu(B))), repair_case.NO_CASES, BOOT, NOW
    )
    verdict = judge_node(switch, [one.signs for one in seen.gpus], NOW)
    told = plan.plan_gpus(seen, verdict, NEVER)
    assert plan.plan_node(told) == NodePlan()
    first, following = plan.describe(told, plan.plan_node(told), verdict)
    assert first.startswith("the node: ask: SXID 12028 of an NVSwitch, fatal, and it is not known")
    assert following.startswith("  next: a person has to look at its link in the kernel's log")


def test_what_the_gpus_of_a_node_are_reset_for_is_told_of_them() -> None:
    trunk = dataclasses.replace(HGX, sxids=(SXid(12, True, True),))
    seen = RepairObservation(trunk, (RepairGpu(gpu(A)),), repair_case.NO_CASES, BOOT, NOW)
    verdict = judge_node(trunk, [gpu(A)], NOW)
    told = plan.plan_gpus(seen, verdict, NEVER)
    assert [
        one.partition(" ")[0] for one in plan.describe(told, plan.plan_node(told), verdict)
    ] == [
        "GPU",
        "",
    ]


observed = st.builds(
    GpuSigns,
    st.just(A),
    st.sampled_from(["hopper", "ampere", "volta", ""]),
    st.booleans(),
    st.sampled_from(Answer),
    st.builds(
        FaultSigns, recovery=st.none() | st.integers(0, 9), sram_exceeded=st.none() | st.booleans()
    ),
    xids=st.lists(st.builds(Xid, st.sampled_from([13, 45, 48, 63, 79, 94, 999]))).map(tuple),
    attempts=st.lists(st.builds(Attempt, st.sampled_from(Action), st.just(NOW - 9))).map(tuple),
    peers=st.sampled_from([None, (), (B,)]),
)
gpus = st.builds(
    RepairGpu,
    observed,
    fenced_by=st.sampled_from(["", OPERATOR, REPAIR]),
    pods=st.sampled_from([(), ("team/train",)]),
    replaced_by=st.sampled_from(["", "", "GPU-new"]),
)
kinds = st.builds(
    NodeSigns,
    st.sampled_from([550, 580]),
    st.sampled_from([None, *Virtual]),
    st.none() | st.booleans(),
    st.sampled_from([None, 0, 4, 5]),
    st.none() | st.booleans(),
    st.booleans(),
)


def named(uuid: str, seen: RepairGpu) -> RepairGpu:
    return seen._replace(signs=GpuSigns(**{**vars(seen.signs), "uuid": uuid}))


@given(st.lists(gpus, max_size=4), kinds, st.sampled_from(plan.REBOOTS), st.booleans(), st.data())
def test_whatever_was_found_nothing_is_done_that_may_not_be(
    some: list[RepairGpu], node: NodeSigns, reboot: str, fences: bool, data: st.DataObject
) -> None:
    named_gpus = [named(f"GPU-{at}", one) for at, one in enumerate(some)]
    begun = {
        one.uuid: OPEN._replace(
            stage=data.draw(st.sampled_from((*repair_case.STAGES, repair_case.FAILED)))
        )
        for one in named_gpus
        if data.draw(st.booleans())
    }
    told = found(*named_gpus, node=node, cases=RepairCases(None, begun), reboot=reboot)
    said = plan.plan_node(told, fences=fences)
    for one in told:
        uuid, action = one.gpu.uuid, one.verdict.action
        held = one.gpu.fenced_by == OPERATOR
        assert not held or uuid not in (*said.reset, *said.prove, *said.fence, *said.cases)
        # What is given back is either well or was repaired before.
        repaired = uuid in said.reset or one.next is Next.REBOOT
        assert uuid not in said.prove or repaired or not action.fences
        assert uuid not in said.reset or action.resets
        # Whatever has a fault gets no new work, and a case.
        if action.fences and not one.gpu.replaced_by and not held:
            assert uuid in said.fence or one.gpu.fenced_by == REPAIR
            assert (uuid in said.new) == (uuid not in begun or not begun[uuid].is_open)
            assert uuid in said.cases
    assert (said.next is Next.REBOOT) <= (reboot == WHEN_NEEDED and said.cordon)
    assert not (said.reset and said.reboot)
    assert set(said.evict) == {
        pod
        for one in told
        if one.gpu.uuid in {*said.reset, *said.with_them}
        for pod in one.gpu.pods
    }
    assert bool(plan.describe(told, said, NO_VERDICT)) == any(
        one.next or one.verdict.action for one in told
    )
