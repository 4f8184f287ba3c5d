# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The cases of a node: the stage of each GPU's repair, its attempts, and the run that holds the node.

A stage is written before it is begun, so that the next run finishes a run that was cut off. The file is strict, and
bounds all that is read.
"""

from __future__ import annotations

import json
import typing as t

from .._base.errors import NodeError, readable
from .._base.text import json_data, strict
from .._base.text.shown import shown
from .._base.text.strict import bounded, second, written
from .._node.quarantine import CASES
from .signs import ACTIONS, Action, Attempt

PATH = CASES
VERSION = 1
LEASE_SECONDS = 12 * 3600.0
TOLERANCE = 300.0  # seconds that a clock may go back before its times are not trusted any more
MOST_CASES, MOST_ATTEMPTS, MOST_TEXTS = 128, 16, 32

OBSERVED = "observed"  # the state of a run that writes nothing
PLANNED, EVIDENCE, FENCED, STOPPED = "planned", "evidence", "fenced", "stopped"
RESET, RESTORED, PROVED, RELEASED, FAILED = "reset", "restored", "proved", "released", "failed"
# In their order; a repair may fail at each, and goes on from there.
STAGES = (PLANNED, EVIDENCE, FENCED, STOPPED, RESET, RESTORED, PROVED, RELEASED)

DONE = "done"  # the result of an attempt that has succeeded
STARTED_AGAIN = "the node or its driver was started again before the result was known"
FORGET = f"move {PATH} away and run again; what was tried before then no longer counts"
AGAIN = "run gpu.node.repair again, which plans the repair again"
HELD = "wait until it has ended, and run again; a run that was cut off gives the node back after 12 hours or a reboot"


class Boot(t.NamedTuple):
    """A start of the machine and a load of the driver, each empty where not known."""

    boot_id: str = ""
    driver_load: str = ""


class RepairCase(t.NamedTuple):
    """The repair of a GPU, ``since`` in seconds since 1970.

    ``boot`` is that of the verdict. ``stopped`` are the services to start again, in the order in which they were
    stopped. ``evidence`` is the archive's path on the node.
    """

    serial: str = ""
    pci: str = ""
    verdict: Action = Action.NONE
    reasons: t.Tuple[str, ...] = ()
    since: float = 0.0
    boot: Boot = Boot()
    stage: str = PLANNED
    stopped: t.Tuple[str, ...] = ()
    attempts: t.Tuple[Attempt, ...] = ()
    evidence: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the GPU was not given back yet."""
        return self.stage != RELEASED

    @property
    def is_in_attempt(self) -> bool:
        """Whether the result of the last attempt is not known."""
        return bool(self.attempts) and not self.attempts[-1].result

    @property
    def reset_at(self) -> float:
        """Return when a repair last reset the GPU or rebooted its node with success, 0 if never."""
        return max((attempt.at for attempt in self.attempts if attempt.result == DONE), default=0.0)

    def counted_attempts(self, boot: Boot) -> t.Tuple[Attempt, ...]:
        """Return the attempts that count for the verdict in the present boot.

        The last does not if its run was cut off in it and the node still runs as it did: it is made again.
        """
        return self.attempts[:-1] if self.is_in_attempt and self.boot == boot else self.attempts


class RepairLease(t.NamedTuple):
    """The run that holds the node's repair, ``since`` in seconds since 1970, and the boot in which it took it."""

    holder: str
    since: float
    boot_id: str = ""


class RepairCases(t.NamedTuple):
    """All cases of a node by the GPUs' UUIDs, also those that are closed, for as long as there is room."""

    lease: t.Optional[RepairLease] = None
    gpus: t.Mapping[str, RepairCase] = {}

    @property
    def latest(self) -> float:
        """Return the newest time in it, 0 if there is none."""
        times = [case.since for case in self.gpus.values()]
        times += [attempt.at for case in self.gpus.values() for attempt in case.attempts]
        return max([*times, self.lease.since if self.lease else 0.0])

    def reset_at(self, uuid: str) -> float:
        """Return when a repair last reset a GPU or rebooted its node with success, 0 if never."""
        return self.gpus[uuid].reset_at if uuid in self.gpus else 0.0

    def with_case(self, uuid: str, case: RepairCase) -> RepairCases:
        """Return the cases with this case; the oldest that are closed make room for it."""
        gpus = {**self.gpus, uuid: case}
        closed = sorted(
            (case.since, name) for name, case in gpus.items() if not case.is_open and name != uuid
        )
        for _since, name in closed[: max(0, len(gpus) - MOST_CASES)]:
            del gpus[name]
        if len(gpus) > MOST_CASES:
            raise NodeError(f"{PATH} has {MOST_CASES} open cases, and takes no more", hint=FORGET)
        return self._replace(gpus=gpus)


NO_CASES = RepairCases()


# --- a run writes its plan and its stages ---


class StageRequest(t.NamedTuple):
    """The stage that a run asks for, its GPUs, the name of the run, and the facts to write down."""

    state: str
    gpus: t.Tuple[str, ...] = ()
    holder: str = ""
    instead_of: str = ""
    give_back: bool = False
    action: str = ""
    result: str = ""
    refused: bool = False
    evidence: str = ""
    stopped: t.Tuple[str, ...] = ()


def record_plan(
    cases: RepairCases,
    request: StageRequest,
    planned: t.Mapping[str, RepairCase],
    gone: t.Iterable[str],
    current_time: float,
    boot: Boot,
) -> RepairCases:
    """Return the cases with the run's lease, the cases that it has planned, and those of GPUs that are gone closed.

    Raises:
        NodeError: if another run has the node.
    """
    cases = _lease_or_refuse(cases, request, current_time, boot)
    for uuid, case in planned.items():
        cases = begin_case(cases, uuid, case)
    for uuid in gone:
        if uuid in cases.gpus:
            cases = cases.with_case(uuid, cases.gpus[uuid]._replace(stage=RELEASED))
    return release_lease(cases, request.holder) if request.give_back else cases


def record_stage(
    cases: RepairCases, request: StageRequest, current_time: float, boot: Boot
) -> RepairCases:
    """Return the cases with those of the request's GPUs at its stage, and its facts.

    Raises:
        NodeError: if another run has the node, a GPU has no open case, or the node was started again since its case
            was planned.
        ValueError: if the stage does not follow, such as a release of a GPU that was not proved.
    """
    cases = _lease_or_refuse(cases, request, current_time, boot)
    for uuid in request.gpus:
        case = cases.gpus.get(uuid)
        if case is None or not case.is_open:
            raise NodeError(f"GPU {uuid} has no open case", hint=AGAIN)
        own = bool(case.attempts) and case.attempts[-1].action is Action.REBOOT
        if request.state != FAILED and case.boot != boot and not own:
            raise NodeError(
                f"GPU {uuid}: the node or its driver was started again since its repair was planned, and nothing is"
                " done by what was known before",
                hint=AGAIN,
            )
        if request.state == PROVED and case.stage == FAILED:
            cases = advance_case(cases, uuid, RESTORED)
        # A case that an earlier run has brought to a later stage stays there.
        if not (
            {request.state, case.stage} <= set(STAGES)
            and STAGES.index(request.state) < STAGES.index(case.stage)
        ):
            stopped, evidence = request.stopped, request.evidence
            cases = advance_case(cases, uuid, request.state, stopped=stopped, evidence=evidence)
        if request.evidence:
            case = cases.gpus[uuid]._replace(evidence=bounded(request.evidence))
            cases = cases.with_case(uuid, case)
        waits = case.is_in_attempt
        if request.action:
            cases = add_attempt(
                withdraw_attempt(cases, uuid), uuid, ACTIONS[request.action], current_time
            )
        if request.refused:
            cases = withdraw_attempt(cases, uuid)
        if request.result and not request.action and waits:
            cases = set_result(cases, uuid, request.result)
        if request.state == PROVED and waits:
            # The run that made the attempt was cut off, and it worked.
            cases = set_result(cases, uuid, DONE)
    return release_lease(cases, request.holder) if request.give_back else cases


def begin_case(cases: RepairCases, uuid: str, case: RepairCase) -> RepairCases:
    """Return the cases with one for a GPU; ``case`` has its verdict and its boot.

    A case that is open goes on. It begins anew if its GPU was reset before and there is a fault again.
    """
    case = _bounded(case._replace(since=second(case.since), stage=PLANNED, stopped=()))
    before = cases.gpus.get(uuid)
    if before is None or not before.is_open:
        attempts = before.attempts if before else ()
        return cases.with_case(uuid, case._replace(attempts=attempts))
    acts = case.verdict.acts
    again = acts and before.stage not in STAGES[: STAGES.index(RESET)]
    joined = before._replace(
        serial=case.serial or before.serial,
        pci=case.pci or before.pci,
        verdict=case.verdict if acts else before.verdict,
        reasons=case.reasons if acts else before.reasons,
        boot=case.boot,
        stage=PLANNED if again else before.stage,
    )
    cases = cases.with_case(uuid, joined)
    if before.boot != case.boot and before.is_in_attempt:
        return set_result(cases, uuid, STARTED_AGAIN)
    return cases


def advance_case(
    cases: RepairCases,
    uuid: str,
    stage: str,
    *,
    stopped: t.Sequence[str] = (),
    evidence: str = "",
) -> RepairCases:
    """Return the cases with a GPU's repair at a later stage, with the services that were stopped for it until then.

    Raises:
        ValueError: if the stage does not follow, such as a release of a GPU that was not proved.
    """
    case = _open_case(cases, uuid)
    if stage == FAILED:
        follows = True
    elif case.stage == FAILED:
        follows = stage in STAGES[: STAGES.index(PROVED)]
    elif stage == RELEASED:
        follows = case.stage == PROVED
    else:
        follows = STAGES.index(stage) >= STAGES.index(case.stage)
    if not follows:
        raise ValueError(f"GPU {uuid}: {stage} does not follow {case.stage}")
    down = () if stage in (RESTORED, PROVED, RELEASED) else (*case.stopped, *stopped)
    changed = case._replace(
        stage=stage, stopped=tuple(dict.fromkeys(down)), evidence=evidence or case.evidence
    )
    return cases.with_case(uuid, _bounded(changed))


def add_attempt(cases: RepairCases, uuid: str, action: Action, at: float) -> RepairCases:
    """Return the cases with an attempt that is about to be made, at a time in seconds since 1970."""
    case = _open_case(cases, uuid)
    attempts = (*case.attempts, Attempt(action, second(at)))[-MOST_ATTEMPTS:]
    return cases.with_case(uuid, case._replace(attempts=attempts))


def set_result(cases: RepairCases, uuid: str, result: str) -> RepairCases:
    """Return the cases with the result of a GPU's last attempt."""
    case = _open_case(cases, uuid)
    if not case.attempts or not result:
        raise ValueError(f"GPU {uuid} has no attempt that could have the result {result!r}")
    last = case.attempts[-1]._replace(result=bounded(result))
    return cases.with_case(uuid, case._replace(attempts=(*case.attempts[:-1], last)))


def withdraw_attempt(cases: RepairCases, uuid: str) -> RepairCases:
    """Return the cases without a GPU's last attempt if that was refused before it was made."""
    case = _open_case(cases, uuid)
    if not case.is_in_attempt:
        return cases
    return cases.with_case(uuid, case._replace(attempts=case.attempts[:-1]))


def _open_case(cases: RepairCases, uuid: str) -> RepairCase:
    case = cases.gpus.get(uuid)
    if case is None or not case.is_open:
        raise ValueError(f"GPU {uuid} has no case")
    return case


def _bounded(case: RepairCase) -> RepairCase:
    return case._replace(
        serial=bounded(case.serial),
        pci=bounded(case.pci),
        reasons=tuple(bounded(reason) for reason in case.reasons[:MOST_TEXTS]),
        stopped=tuple(bounded(service) for service in case.stopped[:MOST_TEXTS]),
        evidence=bounded(case.evidence),
    )


# --- one run at a time ---


def take_lease(
    cases: RepairCases, holder: str, current_time: float, boot_id: str, *, instead_of: str = ""
) -> t.Tuple[RepairCases, str]:
    """Return the cases with the lease of a run at a time in seconds since 1970, or unchanged and why it is refused.

    A holder renews its own lease. ``instead_of`` is a holder that is known to be over.
    """
    if not holder:
        raise ValueError("a lease has a holder")
    lease = cases.lease
    if lease is not None and lease.holder not in (bounded(holder), bounded(instead_of)):
        refusal = lease_refusal(cases, current_time, boot_id)
        if refusal:
            return cases, refusal
    return cases._replace(lease=RepairLease(bounded(holder), second(current_time), boot_id)), ""


def lease_refusal(cases: RepairCases, current_time: float, boot_id: str) -> str:
    """Return which run holds the node, empty if none. ``current_time`` and ``boot_id`` are the node's."""
    lease = cases.lease
    if lease is None:
        return ""
    refusal = f"{lease.holder} repairs the node since {written(lease.since)}"
    if lease.since > current_time + TOLERANCE:
        return f"{refusal}, which is in the future: the node's clock was set back"
    if current_time - lease.since > LEASE_SECONDS:
        return ""
    # A repair may reboot the node itself.
    rebooting = any(
        case.is_open and case.is_in_attempt and case.attempts[-1].action is Action.REBOOT
        for case in cases.gpus.values()
    )
    return refusal if lease.boot_id == boot_id or rebooting else ""


def release_lease(cases: RepairCases, holder: str) -> RepairCases:
    """Return the cases without the lease of a run; another's stays."""
    ours = cases.lease is not None and cases.lease.holder == bounded(holder)
    return cases._replace(lease=None) if ours else cases


def _lease_or_refuse(
    cases: RepairCases, request: StageRequest, current_time: float, boot: Boot
) -> RepairCases:
    cases, refusal = take_lease(
        cases, request.holder, current_time, boot.boot_id, instead_of=request.instead_of
    )
    if refusal:
        raise NodeError(refusal, hint=HELD)
    return cases


# --- the file ---


def parse_cases(text: t.Optional[str]) -> RepairCases:
    """Return the cases in a file's text, none if there is no file.

    Raises:
        NodeError: if the file is damaged.
    """
    if text is None:
        return NO_CASES
    with readable(PATH, FORGET):
        data = strict.keys("it", json_data.loads(text), "version", "lease", "gpus")
        strict.version(data["version"], VERSION)
        gpus = strict.by_uuid("gpus", data["gpus"], MOST_CASES, "cases")
        lease = None
        if data["lease"] is not None:
            row = strict.keys("lease", data["lease"], *RepairLease._fields)
            if not row["holder"]:
                raise ValueError("lease.holder: expected who has the node")
            lease = RepairLease(
                strict.text("lease.holder", row["holder"]),
                strict.time("lease.since", row["since"]),
                strict.text("lease.boot_id", row["boot_id"]),
            )
        cases = {uuid: _parse_case(f"gpus.{uuid}", row) for uuid, row in gpus.items()}
        return RepairCases(lease, cases)


def dump_cases(cases: RepairCases) -> str:
    """Return the file's text."""
    return json.dumps(cases_as_data(cases), indent=1) + "\n"


def cases_as_data(cases: RepairCases) -> t.Dict[str, t.Any]:
    """Return the cases as data."""
    lease = cases.lease
    return {
        "version": VERSION,
        "lease": None if lease is None else {**lease._asdict(), "since": written(lease.since)},
        "gpus": {uuid: _case_as_data(case) for uuid, case in cases.gpus.items()},
    }


def _case_as_data(case: RepairCase) -> t.Dict[str, t.Any]:
    return {
        "serial": case.serial,
        "pci": case.pci,
        "stage": case.stage,
        "evidence": case.evidence,
        **case.boot._asdict(),
        "verdict": case.verdict.word,
        "reasons": list(case.reasons),
        "since": written(case.since),
        "stopped": list(case.stopped),
        "attempts": [
            {"action": attempt.action.word, "at": written(attempt.at), "result": attempt.result}
            for attempt in case.attempts
        ],
    }


def _parse_case(name: str, data: object) -> RepairCase:
    row = strict.keys(name, data, *_case_as_data(RepairCase()))
    if row["stage"] not in (*STAGES, FAILED):
        raise ValueError(f"{name}.stage: {shown(row['stage'])} is not known")
    attempts = []
    for entry in strict.listed(f"{name}.attempts", row["attempts"], MOST_ATTEMPTS):
        attempt = strict.keys(f"{name}.attempts", entry, *Attempt._fields)
        attempts.append(
            Attempt(
                _parse_action(f"{name}.attempts.action", attempt["action"]),
                strict.time(f"{name}.attempts.at", attempt["at"]),
                strict.text(f"{name}.attempts.result", attempt["result"]),
            )
        )
    return RepairCase(
        strict.text(f"{name}.serial", row["serial"]),
        strict.text(f"{name}.pci", row["pci"]),
        _parse_action(f"{name}.verdict", row["verdict"]),
        _parse_texts(f"{name}.reasons", row["reasons"]),
        strict.time(f"{name}.since", row["since"]),
        Boot(*(strict.text(f"{name}.{key}", row[key]) for key in Boot._fields)),
        row["stage"],
        _parse_texts(f"{name}.stopped", row["stopped"]),
        tuple(attempts),
        strict.text(f"{name}.evidence", row["evidence"]),
    )


def _parse_texts(name: str, value: object) -> t.Tuple[str, ...]:
    return tuple(strict.text(name, entry) for entry in strict.listed(name, value, MOST_TEXTS))


def _parse_action(name: str, value: object) -> Action:
    if not isinstance(value, str) or value not in ACTIONS:
        raise ValueError(f"{name}: {shown(value)} is not known")
    return ACTIONS[value]
