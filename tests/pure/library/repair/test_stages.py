# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each stage of a repair is written before it is begun, by the run that has the node, and by no stale knowledge."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import REPAIR
from ansible_collections.gpu.node.plugins.module_utils._repair import case as repair_case
from ansible_collections.gpu.node.plugins.module_utils._repair import plan
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    Boot,
    RepairCase,
    RepairCases,
    RepairLease,
    StageRequest,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    Action,
    Attempt,
    GpuSigns,
    NodeSigns,
    Virtual,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import judge_node
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HGX = NodeSigns(580, Virtual.NONE, nvswitch=True, nvlink=4, fabric_manager=True)
A, B, ME, OTHER = "GPU-a", "GPU-b", "ops on ctl-1, process 7", "ops on ctl-2, process 9"
BOOT, LATER = Boot("b-1", "7"), Boot("b-2", "7")
OPEN = RepairCase(
    "1650", "0000:18:00.0", Action.RESET, ("XID 48",), NOW - 60, BOOT, repair_case.FENCED
)


def ask(state: str, *gpus: str, **more: Any) -> StageRequest:
    return StageRequest(state, gpus, **{"holder": ME, **more})


def at(stage: str, lease: str = ME, **more: Any) -> RepairCases:
    return RepairCases(RepairLease(lease, NOW, "b-1"), {A: OPEN._replace(stage=stage, **more)})


def record(cases: RepairCases, plans: Any, boot: Boot, **more: Any) -> RepairCases:
    work = plan.plan_node(plans)
    new = plan.new_cases(plans, work, NOW, boot)
    return repair_case.record_plan(cases, ask("planned", **more), new, work.close, NOW, boot)


def planned(cases: RepairCases, recovery: int, boot: Boot = BOOT, **more: Any) -> RepairCases:
    case = cases.gpus.get(A)
    gpu = GpuSigns(
        A,
        "hopper",
        signs=FaultSigns(recovery),
        attempts=case.counted_attempts(boot) if case else (),
    )
    seen = plan.RepairObservation(
        HGX, (plan.RepairGpu(gpu, "0000:18:00.0", "1650"),), cases, boot, NOW
    )
    found = plan.plan_gpus(seen, judge_node(HGX, [gpu], NOW), plan.NEVER)
    return record(cases, found, boot, **more)


def staged(cases: RepairCases, state: str, *, boot: Boot = BOOT, **more: Any) -> RepairCases:
    return repair_case.record_stage(cases, ask(state, A, **more), NOW, boot)


def test_a_plan_takes_the_lease_and_opens_cases() -> None:
    cases = planned(repair_case.NO_CASES, 1)
    assert cases.lease == RepairLease(ME, NOW, "b-1")
    case = cases.gpus[A]
    assert (case.stage, case.verdict, case.serial, case.boot) == (
        "planned",
        Action.RESET,
        "1650",
        BOOT,
    )
    assert case.reasons[0].startswith("the driver asks for a reset of the GPU")
    assert planned(repair_case.NO_CASES, 0).gpus == {}


def test_another_run_is_refused_and_named() -> None:
    cases = planned(repair_case.NO_CASES, 1)
    with pytest.raises(NodeError, match=r"ops on ctl-1, process 7 repairs the node since"):
        planned(cases, 1, holder=OTHER)
    with pytest.raises(NodeError, match=r"ops on ctl-1, process 7 repairs"):
        staged(cases, "fenced", holder=OTHER)
    assert planned(cases, 1, holder=OTHER, instead_of=ME).lease == RepairLease(OTHER, NOW, "b-1")


def test_a_repair_goes_through_its_stages_and_gives_the_node_back() -> None:
    cases = planned(repair_case.NO_CASES, 1)
    for state in ("evidence", "fenced", "stopped"):
        cases = staged(cases, state)
    cases = staged(cases, "reset", action="reset")
    assert cases.gpus[A].attempts == (Attempt(Action.RESET, NOW),)
    cases = staged(cases, "reset", result=repair_case.DONE)
    assert cases.gpus[A].attempts == (Attempt(Action.RESET, NOW, repair_case.DONE),)
    for state in ("restored", "proved"):
        cases = staged(cases, state)
    cases = staged(cases, "released", give_back=True)
    assert (cases.gpus[A].is_open, cases.lease) == (False, None)


def test_nothing_is_released_that_was_not_proved() -> None:
    for stage in (
        *repair_case.STAGES[: repair_case.STAGES.index(repair_case.PROVED)],
        repair_case.FAILED,
    ):
        with pytest.raises(ValueError, match="released does not follow"):
            staged(at(stage), "released")


def test_the_next_run_does_not_go_back_behind_what_was_done() -> None:
    fenced = at(repair_case.FENCED, evidence="/evidence/1")
    assert staged(fenced, "evidence") == fenced
    assert staged(fenced, "stopped").gpus[A].stage == "stopped"


def test_a_run_that_was_cut_off_in_the_reset_makes_it_again() -> None:
    cut_off = at(repair_case.RESET, attempts=(Attempt(Action.RESET, NOW - 9),))
    again = planned(cut_off, 1)
    assert (again.gpus[A].stage, again.gpus[A].verdict) == ("planned", Action.RESET)
    made = staged(staged(again, "stopped"), "reset", action="reset")
    assert made.gpus[A].attempts == (Attempt(Action.RESET, NOW),)


def test_a_run_that_was_cut_off_after_the_reset_is_finished() -> None:
    worked = at(repair_case.RESET, attempts=(Attempt(Action.RESET, NOW - 9),))
    cases = staged(staged(planned(worked, 0), "restored"), "proved")
    assert cases.gpus[A].attempts[-1].result == repair_case.DONE
    assert not staged(cases, "released").gpus[A].is_open


def test_a_refused_reset_is_no_attempt_and_escalates_nothing() -> None:
    cases = staged(at(repair_case.STOPPED), "reset", action="reset")
    refused = staged(cases, "reset", refused=True)
    assert refused.gpus[A].attempts == ()
    assert (
        staged(at(repair_case.FENCED), "failed", result="GPU in use").gpus[A].stage
        == repair_case.FAILED
    )


def test_a_failed_reset_counts_and_the_next_verdict_is_stronger() -> None:
    tried = staged(
        staged(at(repair_case.STOPPED), "reset", action="reset"), "reset", result="it is in use"
    )
    failed = staged(tried, "failed", result="it is in use")
    assert planned(failed, 1).gpus[A].verdict is Action.REBOOT


@pytest.mark.parametrize("state", ["evidence", "fenced", "stopped", "reset", "restored", "proved"])
def test_what_was_planned_before_a_reboot_starts_nothing(state: str) -> None:
    with pytest.raises(NodeError, match="started again since its repair was planned"):
        staged(at(repair_case.PLANNED), state, boot=LATER)
    # The reboot was the repair's own.
    rebooted = at(repair_case.RESET, attempts=(Attempt(Action.REBOOT, NOW - 90),))
    staged(rebooted, state, boot=LATER)


def test_a_failed_case_of_which_nothing_is_wrong_any_more_is_proved() -> None:
    assert staged(planned(at(repair_case.FAILED), 0), "proved").gpus[A].stage == repair_case.PROVED


def test_the_case_of_a_gpu_that_is_gone_is_closed() -> None:
    gone = plan.RepairGpu(GpuSigns(A, present=False), fenced_by=REPAIR, replaced_by=B)
    found = plan.plan_gpus(
        plan.RepairObservation(gpus=(gone,)), judge_node(HGX, [gone.signs], NOW), plan.NEVER
    )
    cases = record(at(repair_case.FAILED), found, BOOT)
    assert not cases.gpus[A].is_open


def test_a_stage_of_a_gpu_without_a_case_is_refused() -> None:
    with pytest.raises(NodeError, match="GPU GPU-a has no open case"):
        staged(repair_case.NO_CASES, "fenced")
    with pytest.raises(NodeError, match="GPU GPU-a has no open case"):
        staged(at(repair_case.RELEASED), "fenced")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(repair_case.STAGES[1:]),
            st.sampled_from(["", "reset", "reboot"]),
            st.sampled_from(["", repair_case.DONE, "it failed"]),
            st.booleans(),
            st.sampled_from([BOOT, LATER]),
        ),
        max_size=12,
    )
)
def test_in_whatever_order_stages_come_nothing_is_given_back_unproved(steps: list[Any]) -> None:
    cases, proved = planned(repair_case.NO_CASES, 1), False
    for state, action, result, refused, boot in steps:
        reset = state == repair_case.RESET
        more = {"action": action, "result": result, "refused": refused} if reset else {}
        before = cases
        try:
            cases = staged(cases, state, boot=boot, **more)
        except (NodeError, ValueError):
            assert cases == before
            continue
        proved = proved or cases.gpus[A].stage == repair_case.PROVED
        assert cases.gpus[A].is_open or proved
        if not cases.gpus[A].is_open:
            break
