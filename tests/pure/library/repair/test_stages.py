# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each stage of a repair is written before it is begun, by the run that has the node, and by no stale knowledge."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import REPAIR
from ansible_collections.gpu.node.plugins.module_utils._repair import case as kept
from ansible_collections.gpu.node.plugins.module_utils._repair import plan, stages
from ansible_collections.gpu.node.plugins.module_utils._repair.actions import Action
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    Boot,
    Case,
    Cases,
    Lease,
    Tried,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.stages import Asked
from ansible_collections.gpu.node.plugins.module_utils._repair.state import (
    ObservedGpu,
    ObservedNode,
    Virtual,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import decide
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HGX = ObservedNode(580, Virtual.NONE, nvswitch=True, nvlink=4, fabric_manager=True)
A, B, ME, OTHER = "GPU-a", "GPU-b", "ops on ctl-1, process 7", "ops on ctl-2, process 9"
BOOT, LATER = Boot("b-1", "7"), Boot("b-2", "7")
OPEN = Case("1650", "0000:18:00.0", Action.RESET, ("XID 48",), NOW - 60, BOOT, kept.FENCED)


def ask(state: str, *gpus: str, **more: Any) -> Asked:
    return Asked(state, gpus, **{"holder": ME, **more})


def at(stage: str, lease: str = ME, **more: Any) -> Cases:
    return Cases(Lease(lease, NOW, "b-1"), {A: OPEN._replace(stage=stage, **more)})


def planned(cases: Cases, recovery: int, boot: Boot = BOOT, **more: Any) -> Cases:
    case = cases.gpus.get(A)
    gpu = ObservedGpu(
        A, "hopper", signs=FaultSigns(recovery), attempts=case.tried(boot) if case else ()
    )
    seen = plan.Observation(HGX, (plan.Seen(gpu, "0000:18:00.0", "1650"),), cases, boot, NOW)
    found = plan.todo(seen, decide(HGX, [gpu], NOW), plan.NEVER)
    return stages.planned(cases, ask("planned", **more), found, plan.work(found), (NOW, boot))


def staged(cases: Cases, state: str, *, boot: Boot = BOOT, **more: Any) -> Cases:
    return stages.staged(cases, ask(state, A, **more), NOW, boot)


def test_a_plan_takes_the_lease_and_opens_cases() -> None:
    cases = planned(kept.NOBODY, 1)
    assert cases.lease == Lease(ME, NOW, "b-1")
    case = cases.gpus[A]
    assert (case.stage, case.verdict, case.serial, case.boot) == (
        "planned",
        Action.RESET,
        "1650",
        BOOT,
    )
    assert case.reasons[0].startswith("the driver asks for a reset of the GPU")
    assert planned(kept.NOBODY, 0).gpus == {}


def test_another_run_is_refused_and_named() -> None:
    cases = planned(kept.NOBODY, 1)
    with pytest.raises(NodeError, match=r"ops on ctl-1, process 7 repairs the node since"):
        planned(cases, 1, holder=OTHER)
    with pytest.raises(NodeError, match=r"ops on ctl-1, process 7 repairs"):
        staged(cases, "fenced", holder=OTHER)
    assert planned(cases, 1, holder=OTHER, instead_of=ME).lease == Lease(OTHER, NOW, "b-1")


def test_a_repair_goes_through_its_stages_and_gives_the_node_back() -> None:
    cases = planned(kept.NOBODY, 1)
    for state in ("evidence", "fenced", "stopped"):
        cases = staged(cases, state)
    cases = staged(cases, "reset", action="reset")
    assert cases.gpus[A].attempts == (Tried(Action.RESET, NOW),)
    cases = staged(cases, "reset", result=plan.DONE)
    assert cases.gpus[A].attempts == (Tried(Action.RESET, NOW, plan.DONE),)
    for state in ("restored", "proved"):
        cases = staged(cases, state)
    cases = staged(cases, "released", give_back=True)
    assert (cases.gpus[A].is_open, cases.lease) == (False, None)


def test_nothing_is_released_that_was_not_proved() -> None:
    for stage in (*kept.STAGES[: kept.STAGES.index(kept.PROVED)], kept.FAILED):
        with pytest.raises(ValueError, match="released does not follow"):
            staged(at(stage), "released")


def test_the_next_run_does_not_go_back_behind_what_was_done() -> None:
    fenced = at(kept.FENCED, evidence="/evidence/1")
    assert staged(fenced, "evidence") == fenced
    assert staged(fenced, "stopped").gpus[A].stage == "stopped"


def test_a_run_that_was_cut_off_in_the_reset_makes_it_again() -> None:
    cut_off = at(kept.RESET, attempts=(Tried(Action.RESET, NOW - 9),))
    again = planned(cut_off, 1)
    assert (again.gpus[A].stage, again.gpus[A].verdict) == ("planned", Action.RESET)
    made = staged(staged(again, "stopped"), "reset", action="reset")
    assert made.gpus[A].attempts == (Tried(Action.RESET, NOW),)


def test_a_run_that_was_cut_off_after_the_reset_is_finished() -> None:
    worked = at(kept.RESET, attempts=(Tried(Action.RESET, NOW - 9),))
    cases = staged(staged(planned(worked, 0), "restored"), "proved")
    assert cases.gpus[A].attempts[-1].result == plan.DONE
    assert not staged(cases, "released").gpus[A].is_open


def test_a_refused_reset_is_no_attempt_and_escalates_nothing() -> None:
    cases = staged(at(kept.STOPPED), "reset", action="reset")
    refused = staged(cases, "reset", refused=True)
    assert refused.gpus[A].attempts == ()
    assert staged(at(kept.FENCED), "failed", result="GPU in use").gpus[A].stage == kept.FAILED


def test_a_failed_reset_counts_and_the_next_verdict_is_stronger() -> None:
    tried = staged(
        staged(at(kept.STOPPED), "reset", action="reset"), "reset", result="it is in use"
    )
    failed = staged(tried, "failed", result="it is in use")
    assert planned(failed, 1).gpus[A].verdict is Action.REBOOT


@pytest.mark.parametrize("state", ["evidence", "fenced", "stopped", "reset", "restored", "proved"])
def test_what_was_planned_before_a_reboot_starts_nothing(state: str) -> None:
    with pytest.raises(NodeError, match="started again since its repair was planned"):
        staged(at(kept.PLANNED), state, boot=LATER)
    # The reboot was the repair's own.
    rebooted = at(kept.RESET, attempts=(Tried(Action.REBOOT, NOW - 90),))
    staged(rebooted, state, boot=LATER)


def test_a_failed_case_of_which_nothing_is_wrong_any_more_is_proved() -> None:
    assert staged(planned(at(kept.FAILED), 0), "proved").gpus[A].stage == kept.PROVED


def test_the_case_of_a_gpu_that_is_gone_is_closed() -> None:
    gone = plan.Seen(ObservedGpu(A, present=False), fenced_by=REPAIR, replaced_by=B)
    found = plan.todo(plan.Observation(gpus=(gone,)), decide(HGX, [gone.observed], NOW), plan.NEVER)
    work = plan.work(found)
    cases = stages.planned(at(kept.FAILED), ask("planned"), found, work, (NOW, BOOT))
    assert not cases.gpus[A].is_open


def test_a_stage_of_a_gpu_without_a_case_is_refused() -> None:
    with pytest.raises(NodeError, match="GPU GPU-a has no open case"):
        staged(kept.NOBODY, "fenced")
    with pytest.raises(NodeError, match="GPU GPU-a has no open case"):
        staged(at(kept.RELEASED), "fenced")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(kept.STAGES[1:]),
            st.sampled_from(["", "reset", "reboot"]),
            st.sampled_from(["", plan.DONE, "it failed"]),
            st.booleans(),
            st.sampled_from([BOOT, LATER]),
        ),
        max_size=12,
    )
)
def test_in_whatever_order_stages_come_nothing_is_given_back_unproved(steps: list[Any]) -> None:
    cases, proved = planned(kept.NOBODY, 1), False
    for state, action, result, refused, boot in steps:
        reset = state == kept.RESET
        more = {"action": action, "result": result, "refused": refused} if reset else {}
        before = cases
        try:
            cases = staged(cases, state, boot=boot, **more)
        except (NodeError, ValueError):
            assert cases == before
            continue
        proved = proved or cases.gpus[A].stage == kept.PROVED
        assert cases.gpus[A].is_open or proved
        if not cases.gpus[A].is_open:
            break
