# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.repair: it judges the GPUs, and keeps the node's cases and its lease."""

from __future__ import annotations

import typing as t

from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._node.machine.in_service import as_data as standing
from . import case as repair_case
from .case import (
    AGAIN,
    OBSERVED,
    PLANNED,
    PROVED,
    RESET,
    RepairCases,
    StageRequest,
    cases_as_data,
    lease_refusal,
)
from .machine import cases as case_file
from .machine.observe import RepairSettings, observe
from .plan import (
    GpuPlan,
    NodePlan,
    RepairObservation,
    clock_problem,
    describe,
    new_cases,
    plan_gpus,
    plan_node,
)
from .verdict import NodeVerdict, judge_node
from .xids.table import parse

Data = t.Dict[str, t.Any]
STEP = "cases"


class RepairState(t.NamedTuple):
    """The cases, and where the run looks at the node, its signs, the verdict and the plan."""

    cases: RepairCases
    observation: t.Optional[RepairObservation] = None
    verdict: t.Optional[NodeVerdict] = None
    plans: t.Tuple[GpuPlan, ...] = ()
    work: NodePlan = NodePlan()
    refused: str = ""
    held: str = ""


class RepairCapability:
    """Judges the GPUs of a node, and writes down the stages of their repair."""

    name = "repair"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host, self._params = host, params
        self._file = case_file.CaseFile(host)
        self._request = _parse_request(params)
        self._table = parse(params["xids"])
        self._state: t.Optional[RepairState] = None
        self._applied = False

    def observe(self) -> RepairState:
        """Look at the node, or where a stage is only written down, at the cases. NodeError."""
        if self._request.state not in (OBSERVED, PLANNED, PROVED):
            return RepairState(self._file.read())
        known = self._state
        if known is not None and known.observation is not None:
            current_time, boot = known.observation.current_time, known.observation.boot
            cases = self._file.read()
            return known._replace(
                cases=cases, held=lease_refusal(cases, current_time, boot.boot_id)
            )
        params = self._params
        seen = observe(self._host, RepairSettings(params["window"], params["gpu_count"]))
        signs = [gpu.signs for gpu in seen.gpus]
        verdict = judge_node(seen.node, signs, seen.current_time, self._table, params["window"])
        plans = plan_gpus(seen, verdict, params["reboot"])
        self._state = RepairState(
            seen.cases,
            seen,
            verdict,
            plans,
            plan_node(plans, fences=params["fences"]),
            refused=clock_problem(seen),
            held=lease_refusal(seen.cases, seen.current_time, seen.boot.boot_id),
        )
        return self._state

    def plan(self, state: RepairState) -> Plan:
        """Return the step that writes the cases, where they change.

        Raises:
            NodeError: if the cases may not change.
        """
        warnings = state.observation.warnings if state.observation else ()
        request = self._request
        if request.state == OBSERVED or self._applied:
            return Plan(warnings=warnings)
        if state.refused:
            raise NodeError(state.refused)
        if request.state == PROVED:
            self._refuse_unproved(state)
        after = self._change(state, state.cases)
        if after == state.cases:
            return Plan(warnings=warnings)
        if request.state == PLANNED:
            uuids = state.work.cases
            suffix = f" and keep the cases of {', '.join(uuids)}" if uuids else ""
            summary = f"take the node's repair for {request.holder}{suffix}"
        else:
            gpus = ", ".join(request.gpus) or "no GPU"
            summary = f"write down that {gpus} comes to {request.state}"
        step = Step(STEP, summary, {"state": state})
        return Plan((step,), cases_as_data(state.cases), cases_as_data(after), warnings=warnings)

    def _refuse_unproved(self, state: RepairState) -> None:
        plans = {plan.gpu.uuid: plan for plan in state.plans}
        for uuid in self._request.gpus:
            plan = plans.get(uuid)
            if plan is None or plan.verdict.action.fences:
                reasons = "; ".join(reason.text for reason in plan.verdict.reasons) if plan else ""
                problem = state.observation.problem if state.observation else ""
                raise NodeError(
                    f"GPU {uuid} is not given back: it still has a fault",
                    cause=reasons or problem or "it is not there",
                    hint=plan.step if plan else AGAIN,
                )

    def _change(self, state: RepairState, before: RepairCases) -> RepairCases:
        """Return the cases that the request makes of those before."""
        request = self._request
        current_time, boot = case_file.read_clock(), case_file.observe_boot(self._host)
        if request.state != PLANNED:
            return repair_case.record_stage(before, request, current_time, boot)
        cases = new_cases(state.plans, state.work, current_time, boot)
        return repair_case.record_plan(before, request, cases, state.work.close, current_time, boot)

    def apply(self, step: Step) -> None:
        """Write the cases, as they are by then.

        Raises:
            NodeError: if another run was faster.
        """
        self._file.change(lambda before: self._change(step.params["state"], before))
        self._applied = True

    def result(self, state: RepairState, plan: Plan) -> Data:
        """Return the signs, the plan, and the cases."""
        data = cases_as_data(state.cases)
        answer: Data = {
            "cases": data["gpus"],
            "lease": data["lease"] or {},
            "in_repair": [uuid for uuid, case in state.cases.gpus.items() if case.is_open],
        }
        if state.observation is None or state.verdict is None:
            return answer
        step = state.work.next
        work = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in state.work._asdict().items()
        }
        return {
            **answer,
            "problem": state.observation.problem,
            "refused": state.refused,
            "held": state.held,
            "change": standing(self._host),
            "next": step.name.lower(),
            "work": {**work, "next": step.name.lower(), "works": step.works},
            "gpus": [_gpu_as_data(gpu_plan) for gpu_plan in state.plans],
            "lines": describe(state.plans, state.work, state.verdict),
        }


def _gpu_as_data(plan: GpuPlan) -> Data:
    gpu, verdict = plan.gpu, plan.verdict
    return {
        "uuid": gpu.uuid,
        "index": gpu.number,
        "pci": gpu.pci,
        "serial": gpu.serial,
        "present": gpu.signs.present,
        "verdict": verdict.action.word,
        "reasons": [reason.text for reason in verdict.reasons if reason.action],
        "next": plan.next.name.lower(),
        "next_step": plan.step,
        "set_aside_by": gpu.fenced_by,
        "pods": list(gpu.pods),
        "evidence": plan.case.evidence if plan.case else "",
    }


def _parse_request(params: t.Mapping[str, t.Any]) -> StageRequest:
    values = {name: params[name] for name in StageRequest._fields}
    values.update(gpus=tuple(params["gpus"]), stopped=tuple(params["stopped"]))
    request = StageRequest(**values)
    if params["window"] < 1:
        raise InputError.of("window", params["window"], "a number of seconds, 1 or more")
    if request.state == OBSERVED:
        return request
    if not request.holder:
        raise InputError.of("holder", "", f"who makes the repair, with state {request.state}")
    if request.state != PLANNED and not (request.gpus or request.give_back):
        raise InputError.of("gpus", [], f"the GPUs that come to {request.state}")
    if (request.action or request.refused) and request.state != RESET:
        key = "action" if request.action else "refused"
        raise InputError.of(key, params[key], "it only with state reset")
    return request
