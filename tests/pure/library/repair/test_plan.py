# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run does next: nothing weaker than the verdict, nothing that was not allowed, and nothing to an operator's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import OPERATOR, REPAIR
from ansible_collections.gpu.node.plugins.module_utils._repair import case as kept
from ansible_collections.gpu.node.plugins.module_utils._repair import plan
from ansible_collections.gpu.node.plugins.module_utils._repair.actions import Action
from ansible_collections.gpu.node.plugins.module_utils._repair.case import Boot, Case, Cases, Tried
from ansible_collections.gpu.node.plugins.module_utils._repair.plan import (
    NEVER,
    WHEN_NEEDED,
    Next,
    Observation,
    Seen,
    Todo,
    Work,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.state import (
    Answer,
    Attempt,
    ObservedGpu,
    ObservedNode,
    SXid,
    Virtual,
    Xid,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import decide
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HGX = ObservedNode(580, Virtual.NONE, nvswitch=True, nvlink=4, fabric_manager=True)
NVL5 = ObservedNode(580, Virtual.NONE, nvswitch=True, nvlink=5, fabric_manager=True)
A, B, C = "GPU-a", "GPU-b", "GPU-c"
BOOT = Boot("b-1", "7")
NO_VERDICT = decide(HGX, [], NOW)
OPEN = Case("1650", "0000:18:00.0", Action.RESET, ("XID 48",), NOW - 60, BOOT, kept.FENCED)


def gpu(
    uuid: str = A, recovery: int = 0, *, architecture: str = "hopper", **more: Any
) -> ObservedGpu:
    return ObservedGpu(uuid, architecture, signs=FaultSigns(recovery), **more)


def found(
    *gpus: Seen, node: ObservedNode = HGX, cases: Cases = kept.NOBODY, reboot: str = NEVER
) -> tuple[Todo, ...]:
    seen = Observation(node, gpus, cases, BOOT, NOW)
    return plan.todo(seen, decide(node, [one.observed for one in gpus], NOW), reboot)


def work(*gpus: Seen, **more: Any) -> Work:
    return plan.work(found(*gpus, **more))


def test_nothing_is_done_where_nothing_is_wrong() -> None:
    assert work(Seen(gpu()), Seen(gpu(B, xids=(Xid(13, NOW),)))) == Work()


def test_a_gpu_that_wants_a_reset_is_fenced_and_reset_alone() -> None:
    well, sick = Seen(gpu(B), pods=("team/other",)), Seen(gpu(A, 1), pods=("team/train",))
    assert work(well, sick) == Work(
        Next.RESET, cases=(A,), new=(A,), fence=(A,), reset=(A,), prove=(A,), evict=("team/train",)
    )
    assert plan.work(found(well, sick), fences=False).cordon


def test_gpus_that_are_reset_together_take_the_pods_of_all_and_the_node_is_cordoned() -> None:
    bridged = ObservedNode(580, Virtual.NONE, nvswitch=False)
    pair = [
        Seen(gpu(A, 1, architecture="volta", peers=(B,)), pods=("team/a",)),
        Seen(gpu(B, architecture="volta", peers=(A,)), pods=("team/b",)),
        Seen(gpu(C, architecture="volta", peers=()), pods=("team/c",)),
    ]
    said = work(*pair, node=bridged)
    assert (said.reset, said.together, said.with_them) == ((A,), True, (B,))
    assert (said.evict, said.cordon, said.fence) == (("team/a", "team/b"), True, (A,))


def test_a_reset_of_all_for_a_switch_is_of_every_gpu() -> None:
    trunk = ObservedNode(
        580,
        Virtual.NONE,
        nvswitch=True,
        nvlink=4,
        fabric_manager=True,
        sxids=(SXid(12, True, False),),
    )
    said = work(Seen(gpu(A)), Seen(gpu(B)), node=trunk)
    assert (said.reset, said.fence, said.together) == ((A, B), (A, B), True)


def test_no_gpu_is_reset_while_another_is_lost_as_nvidia_smi_refuses_that() -> None:
    lost, sick = Seen(gpu(answer=Answer.LOST)), Seen(gpu(B, 1))
    _lost, waits = found(lost, sick)
    assert waits.next is Next.WAIT
    assert "while one is lost (GPU-a): reboot the node" in waits.step
    assert work(lost, sick) == Work(Next.WAIT, cases=(A, B), new=(A, B), fence=(A, B))
    aside = Seen(gpu(answer=Answer.LOST), fenced_by=OPERATOR)
    assert work(aside, sick, reboot=WHEN_NEEDED).reset == ()
    assert work(Seen(gpu(present=False)), sick).reset == (B,)


def test_a_gpu_whose_fabric_is_sick_stays_in_service_and_a_person_is_told() -> None:
    (one,) = found(Seen(gpu(recovery=5)))
    assert one.next is Next.NOTHING
    assert "recover the fabric or IMEX domain" in one.step
    assert work(Seen(gpu(recovery=5))) == Work()


def test_a_reboot_is_made_only_where_it_is_allowed() -> None:
    lost = Seen(gpu(answer=Answer.LOST))
    (waits,) = found(lost)
    assert waits.next is Next.WAIT
    assert "repair_reboot=when_needed" in waits.step
    assert plan.work([waits]) == Work(Next.WAIT, cases=(A,), new=(A,), fence=(A,))
    said = work(lost, Seen(gpu(B, 1)), reboot=WHEN_NEEDED)
    assert said == Work(
        Next.REBOOT, cases=(A, B), new=(A, B), fence=(A, B), reboot=(A,), prove=(A,), cordon=True
    )


def test_what_may_end_by_itself_is_waited_for() -> None:
    (waits,) = found(Seen(gpu(A, 4), pods=("team/train",)))
    assert (waits.next, "team/train" in waits.step) == (Next.WAIT, True)
    assert work(Seen(gpu(A, 4))).reset == (A,)


@pytest.mark.parametrize("fenced_by", ["", REPAIR])
@pytest.mark.parametrize("stage", [kept.PLANNED, kept.FENCED, kept.RESET, kept.PROVED, kept.FAILED])
def test_a_gpu_with_a_case_of_which_nothing_is_wrong_any_more_is_proved(
    stage: str, fenced_by: str
) -> None:
    cases = Cases(None, {A: OPEN._replace(stage=stage)})
    said = work(Seen(gpu(), fenced_by=fenced_by), cases=cases)
    assert said == Work(Next.PROVE, cases=(A,), prove=(A,))


def test_what_an_operator_has_set_aside_is_neither_reset_nor_given_back() -> None:
    held = Seen(gpu(A, 1), fenced_by=OPERATOR, pods=("team/train",))
    assert work(held) == Work(Next.WAIT)
    assert work(Seen(gpu(A), fenced_by=OPERATOR)) == Work()
    assert work(held._replace(observed=gpu()), cases=Cases(None, {A: OPEN})) == Work(Next.WAIT)


def test_the_case_of_a_gpu_that_was_replaced_is_closed() -> None:
    gone = Seen(gpu(A, present=False), fenced_by=REPAIR, replaced_by=B)
    said = work(gone, Seen(gpu(B)), cases=Cases(None, {A: OPEN}))
    assert said == Work(Next.CLOSE, close=(A,))


def test_a_gpu_of_which_only_the_place_is_known_is_set_aside_nowhere_and_has_a_case() -> None:
    place = "0000:2a:00.0"
    said = work(Seen(gpu(place, present=False), place))
    assert said == Work(Next.WAIT, cases=(place,), new=(place,))


def test_attempts_that_worked_say_since_when_the_log_counts() -> None:
    tried = (Tried(Action.RESET, 10.0, plan.DONE), Tried(Action.RESET, 20.0, "refused"))
    assert plan.reset_since(OPEN._replace(attempts=tried)) == 10.0
    assert plan.reset_since(OPEN) == plan.reset_since(None) == 0.0


def test_a_clock_that_was_set_back_starts_nothing() -> None:
    cases = Cases(None, {A: OPEN._replace(since=NOW + 3600)})
    assert "3600 s behind" in plan.clock_problem(Observation(cases=cases, now=NOW))
    assert not plan.clock_problem(Observation(cases=cases, now=NOW + 3600 - kept.TOLERANCE))


def test_a_person_is_told_of_each_gpu_what_was_found_tried_and_comes_next() -> None:
    tried = (Tried(Action.RESET, NOW - 120, "in use by another client"),)
    case = OPEN._replace(attempts=tried)
    lost = gpu(answer=Answer.LOST, attempts=case.tried(BOOT))
    told = found(Seen(lost, "0000:18:00.0", number=3), Seen(gpu(B)), cases=Cases(None, {A: case}))
    first, following, before = plan.lines(told, plan.work(told), NO_VERDICT)
    assert first.startswith("GPU 3 (GPU-a, 0000:18:00.0): reboot: NVML says that the GPU is lost")
    assert following.startswith("  next: no reset can help")
    assert before == (
        "  before: 1 attempt, the last a reset at 2027-01-15T07:58:00Z: in use by another client"
    )


def test_a_person_is_told_of_the_node_what_no_gpu_has() -> None:
    switch = dataclasses.replace(HGX, sxids=(SXid(12028, True, None), SXid(10, False, None)))
    seen = Observation(switch, (Seen(gpu(A)), Seen(gpu(B))), kept.NOBODY, BOOT, NOW)
    verdict = decide(switch, [one.observed for one in seen.gpus], NOW)
    told = plan.todo(seen, verdict, NEVER)
    assert plan.work(told) == Work()
    first, following = plan.lines(told, plan.work(told), verdict)
    assert first.startswith("the node: ask: SXID 12028 of an NVSwitch, fatal, and it is not known")
    assert following.startswith("  next: a person has to look at its link in the kernel's log")


def test_what_the_gpus_of_a_node_are_reset_for_is_told_of_them() -> None:
    trunk = dataclasses.replace(HGX, sxids=(SXid(12, True, True),))
    seen = Observation(trunk, (Seen(gpu(A)),), kept.NOBODY, BOOT, NOW)
    verdict = decide(trunk, [gpu(A)], NOW)
    told = plan.todo(seen, verdict, NEVER)
    assert [one.partition(" ")[0] for one in plan.lines(told, plan.work(told), verdict)] == [
        "GPU",
        "",
    ]


observed = st.builds(
    ObservedGpu,
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
    Seen,
    observed,
    fenced_by=st.sampled_from(["", OPERATOR, REPAIR]),
    pods=st.sampled_from([(), ("team/train",)]),
    replaced_by=st.sampled_from(["", "", "GPU-new"]),
)
kinds = st.builds(
    ObservedNode,
    st.sampled_from([550, 580]),
    st.sampled_from([None, *Virtual]),
    st.none() | st.booleans(),
    st.sampled_from([None, 0, 4, 5]),
    st.none() | st.booleans(),
    st.booleans(),
)


def named(uuid: str, seen: Seen) -> Seen:
    return seen._replace(observed=ObservedGpu(**{**vars(seen.observed), "uuid": uuid}))


@given(st.lists(gpus, max_size=4), kinds, st.sampled_from(plan.REBOOTS), st.booleans(), st.data())
def test_whatever_was_found_nothing_is_done_that_may_not_be(
    some: list[Seen], node: ObservedNode, reboot: str, fences: bool, data: st.DataObject
) -> None:
    named_gpus = [named(f"GPU-{at}", one) for at, one in enumerate(some)]
    begun = {
        one.uuid: OPEN._replace(stage=data.draw(st.sampled_from((*kept.STAGES, kept.FAILED))))
        for one in named_gpus
        if data.draw(st.booleans())
    }
    told = found(*named_gpus, node=node, cases=Cases(None, begun), reboot=reboot)
    said = plan.work(told, fences=fences)
    for one in told:
        uuid, action = one.seen.uuid, one.verdict.action
        held = one.seen.fenced_by == OPERATOR
        assert not held or uuid not in (*said.reset, *said.prove, *said.fence, *said.cases)
        # What is given back is either well or was repaired before.
        repaired = uuid in said.reset or one.next is Next.REBOOT
        assert uuid not in said.prove or repaired or not action.fences
        assert uuid not in said.reset or action.resets
        # Whatever has a fault gets no new work, and a case.
        if action.fences and not one.seen.replaced_by and not held:
            assert uuid in said.fence or one.seen.fenced_by == REPAIR
            assert (uuid in said.new) == (uuid not in begun or not begun[uuid].is_open)
            assert uuid in said.cases
    assert (said.next is Next.REBOOT) <= (reboot == WHEN_NEEDED and said.cordon)
    assert not (said.reset and said.reboot)
    assert set(said.evict) == {
        pod
        for one in told
        if one.seen.uuid in {*said.reset, *said.with_them}
        for pod in one.seen.pods
    }
    assert bool(plan.lines(told, said, NO_VERDICT)) == any(
        one.next or one.verdict.action for one in told
    )
