# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a stage of a repair makes of the node's cases, before it is begun or once its result is known."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.text.strict import bounded
from . import case as kept
from .actions import NAMES, Action
from .case import Boot, Case, Cases
from .plan import DONE, Todo, Work

OBSERVED = "observed"
STATES = (OBSERVED, *kept.STAGES, kept.FAILED)


class Asked(t.NamedTuple):
    """What a run asks for: the stage, the GPUs, who it is, and what it has to write down."""

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


def planned(
    cases: Cases, asked: Asked, found: t.Sequence[Todo], work: Work, at: t.Tuple[float, Boot]
) -> Cases:
    """Return the cases with the lease of a run, and with those of the GPUs that it has something to do for.

    ``at`` is the present time and boot. NodeError: another run has the node.
    """
    now, boot = at
    cases = taken(cases, asked, now, boot)
    for one in found:
        if one.seen.uuid in work.cases:
            reasons = tuple(reason.text for reason in one.verdict.reasons if reason.action)
            of = Case(one.seen.serial, one.seen.pci, one.verdict.action, reasons, now, boot)
            cases = kept.begin(cases, one.seen.uuid, of)
    for uuid in work.close:
        cases = kept.close(cases, uuid)
    return _given_back(cases, asked)


def staged(cases: Cases, asked: Asked, now: float, boot: Boot) -> Cases:
    """Return the cases with some at a stage, and with what is to be written down of it.

    NodeError: another run has the node, a GPU has no case, or the node was started again since its case was planned.
    """
    cases = taken(cases, asked, now, boot)
    for uuid in asked.gpus:
        case = cases.gpus.get(uuid)
        if case is None or not case.is_open:
            raise NodeError(f"GPU {uuid} has no open case", hint=AGAIN)
        if asked.state != kept.FAILED:
            _refuse_stale(uuid, case, boot)
        cases = _written(_come_to(cases, uuid, asked), uuid, asked, now)
    return _given_back(cases, asked)


def taken(cases: Cases, asked: Asked, now: float, boot: Boot) -> Cases:
    """Return the cases with the lease of a run. NodeError: another run has it."""
    cases, refused = kept.take(cases, asked.holder, now, boot.boot_id, instead_of=asked.instead_of)
    if refused:
        raise NodeError(refused, hint=HELD)
    return cases


AGAIN = "run gpu.node.repair again, which plans the repair again"
HELD = "wait until it has ended, and run again; a run that was cut off gives the node back after 12 hours or a reboot"


def _refuse_stale(uuid: str, case: Case, boot: Boot) -> None:
    """Refuse what was planned before the node or its driver was started again, but for a reboot of the repair's own."""
    own = bool(case.attempts) and case.attempts[-1].action is Action.REBOOT
    if case.boot != boot and not own:
        raise NodeError(
            f"GPU {uuid}: the node or its driver was started again since its repair was planned, and nothing is done"
            " by what was known before",
            hint=AGAIN,
        )


def _come_to(cases: Cases, uuid: str, asked: Asked) -> Cases:
    """Return the cases with one at the stage; one that a run before had at a later one stays there."""
    stage = cases.gpus[uuid].stage
    if asked.state not in (kept.FAILED, stage) and stage != kept.FAILED:
        behind = kept.STAGES.index(asked.state) < kept.STAGES.index(stage)
        if behind:
            return cases
    if stage == kept.FAILED and asked.state == kept.PROVED:
        cases = kept.advance(cases, uuid, kept.RESTORED)
    return kept.advance(cases, uuid, asked.state, stopped=asked.stopped, evidence=asked.evidence)


def _written(cases: Cases, uuid: str, asked: Asked, now: float) -> Cases:
    case = cases.gpus[uuid]
    if asked.evidence and case.evidence != asked.evidence:
        cases = cases.with_case(uuid, case._replace(evidence=bounded(asked.evidence)))
    if asked.action:
        cases = kept.attempt(kept.withdraw(cases, uuid), uuid, NAMES[asked.action], now)
    if asked.refused:
        cases = kept.withdraw(cases, uuid)
    waits = bool(case.attempts) and not case.attempts[-1].result
    if asked.result and not asked.action and waits:
        cases = kept.outcome(cases, uuid, asked.result)
    if asked.state == kept.RESTORED:
        cases = kept.started(cases, uuid)
    if asked.state == kept.PROVED and waits:
        # The run that made the attempt was cut off, and it worked.
        cases = kept.outcome(cases, uuid, DONE)
    return cases


def _given_back(cases: Cases, asked: Asked) -> Cases:
    return kept.give_back(cases, asked.holder) if asked.give_back else cases
