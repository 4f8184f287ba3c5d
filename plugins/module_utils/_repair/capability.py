# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.repair: it judges the GPUs, and keeps the node's cases and its lease."""

from __future__ import annotations

import typing as t

from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._node.machine.in_service import as_data as standing
from . import case as kept
from . import plan as planning
from . import stages
from .case_file import data_of
from .machine import cases
from .machine.observe import Settings, observe
from .plan import Observation, Todo, Work
from .stages import OBSERVED, Asked
from .state import Verdict
from .verdict import decide
from .xids.table import parse

Data = t.Dict[str, t.Any]
READS = (OBSERVED, kept.PLANNED, kept.PROVED)  # states in which the node is looked at
STEP = "cases"


class State(t.NamedTuple):
    """The cases, and where the node was looked at, what was found and what is to be done about it."""

    cases: kept.Cases
    seen: t.Optional[Observation] = None
    verdict: t.Optional[Verdict] = None
    found: t.Tuple[Todo, ...] = ()
    work: Work = Work()
    refused: str = ""
    held: str = ""


class RepairCapability:
    """Says what is wrong with the GPUs of a node, and writes down how far their repair is."""

    name = "repair"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host, self._params = host, params
        self._file = cases.CaseFile(host)
        self._asked = _asked(params)
        self._table = parse(params["xids"])
        self._seen: t.Optional[State] = None
        self._applied = False

    def observe(self) -> State:
        """Look at the node, or where a stage is only written down, at the cases. NodeError."""
        if self._asked.state not in READS:
            return State(self._file.read())
        if self._seen is not None:
            there, seen = self._file.read(), self._seen.seen
            held = kept.held(there, seen.now, seen.boot.boot_id) if seen else ""
            return self._seen._replace(cases=there, held=held)
        params = self._params
        settings = Settings(params["window"], params["gpu_count"])
        seen = observe(self._host, settings)
        gpus = [one.observed for one in seen.gpus]
        verdict = decide(seen.node, gpus, seen.now, self._table, params["window"])
        found = planning.todo(seen, verdict, params["reboot"])
        work = planning.work(found, fences=params["fences"])
        held = kept.held(seen.cases, seen.now, seen.boot.boot_id)
        refused = planning.clock_problem(seen)
        self._seen = State(seen.cases, seen, verdict, found, work, refused, held)
        return self._seen

    def plan(self, state: State) -> Plan:
        """Return the step that writes the cases, where they change. NodeError: they may not."""
        warnings = state.seen.warnings if state.seen else ()
        if self._asked.state == OBSERVED or self._applied:
            return Plan(warnings=warnings)
        if state.refused:
            raise NodeError(state.refused)
        self._refuse_unproved(state)
        after = self._change(state, state.cases)
        if after == state.cases:
            return Plan(warnings=warnings)
        step = Step(STEP, self._summary(state), {"state": state})
        return Plan((step,), data_of(state.cases), data_of(after), warnings=warnings)

    def _refuse_unproved(self, state: State) -> None:
        if self._asked.state != kept.PROVED:
            return
        by = {one.seen.uuid: one for one in state.found}
        for uuid in self._asked.gpus:
            one = by.get(uuid)
            if one is None or one.verdict.action.fences:
                why = "; ".join(each.text for each in one.verdict.reasons) if one else ""
                problem = state.seen.problem if state.seen else ""
                raise NodeError(
                    f"GPU {uuid} is not given back: it still has a fault",
                    cause=why or problem or "it is not there",
                    hint=one.step if one else stages.AGAIN,
                )

    def _change(self, state: State, before: kept.Cases) -> kept.Cases:
        now, boot = cases.now(), cases.boot(self._host)
        if self._asked.state == kept.PLANNED:
            return stages.planned(before, self._asked, state.found, state.work, (now, boot))
        return stages.staged(before, self._asked, now, boot)

    def _summary(self, state: State) -> str:
        if self._asked.state == kept.PLANNED:
            of = f" and keep the cases of {', '.join(state.work.cases)}" if state.work.cases else ""
            return f"take the node's repair for {self._asked.holder}{of}"
        return f"write down that {', '.join(self._asked.gpus) or 'no GPU'} comes to {self._asked.state}"

    def apply(self, step: Step) -> None:
        """Write the cases, as they are by then. NodeError: another run was faster."""
        self._file.change(lambda before: self._change(step.params["state"], before))
        self._applied = True

    def result(self, state: State, plan: Plan) -> Data:
        """Return what was found, what is to be done, and the cases."""
        data = data_of(state.cases)
        answer: Data = {
            "cases": data["gpus"],
            "lease": data["lease"] or {},
            "in_repair": _open(state),
        }
        if state.seen is None or state.verdict is None:
            return answer
        return {
            **answer,
            "problem": state.seen.problem,
            "refused": state.refused,
            "held": state.held,
            "change": standing(self._host),
            "next": state.work.next.name.lower(),
            "work": _work(state.work),
            "gpus": [_gpu(one) for one in state.found],
            "lines": planning.lines(state.found, state.work, state.verdict),
        }


def _open(state: State) -> t.List[str]:
    return [uuid for uuid, one in state.cases.gpus.items() if one.is_open]


def _work(work: Work) -> Data:
    return {
        **{
            key: list(one) if isinstance(one, tuple) else one for key, one in work._asdict().items()
        },
        "next": work.next.name.lower(),
        "works": work.next.works,
    }


def _gpu(one: Todo) -> Data:
    seen, verdict = one.seen, one.verdict
    return {
        "uuid": seen.uuid,
        "index": seen.number,
        "pci": seen.pci,
        "serial": seen.serial,
        "present": seen.observed.present,
        "verdict": verdict.action.name.lower(),
        "reasons": [reason.text for reason in verdict.reasons if reason.action],
        "next": one.next.name.lower(),
        "next_step": one.step,
        "set_aside_by": seen.fenced_by,
        "pods": list(seen.pods),
        "evidence": one.case.evidence if one.case else "",
    }


def _asked(params: t.Mapping[str, t.Any]) -> Asked:
    asked = Asked(
        **{key: params[key] for key in Asked._fields if key not in ("gpus", "stopped")},
        gpus=tuple(params["gpus"]),
        stopped=tuple(params["stopped"]),
    )
    if params["window"] < 1:
        raise InputError.of("window", params["window"], "a number of seconds, 1 or more")
    if asked.state == OBSERVED:
        return asked
    if not asked.holder:
        raise InputError.of("holder", "", f"who makes the repair, with state {asked.state}")
    if asked.state != kept.PLANNED and not (asked.gpus or asked.give_back):
        raise InputError.of("gpus", [], f"the GPUs that come to {asked.state}")
    if (asked.action or asked.refused) and asked.state != kept.RESET:
        key = "action" if asked.action else "refused"
        raise InputError.of(key, params[key], "it only with state reset")
    return asked
