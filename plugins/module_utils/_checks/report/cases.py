# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The repairs of a node's GPUs, for a report: what was found, what was tried, and what comes next."""

from __future__ import annotations

import typing as t

from ..._repair import case as repair_case
from ..._repair.case import RepairCase, RepairCases
from ..._repair.plan import WAITS
from ..._repair.signs import Action

Json = t.Dict[str, t.Any]
MOST_REASONS = 8  # that are told of a case
# What a row has, by the types of JSON; times are in seconds since 1970, a result that is not known is empty.
ATTEMPT = {"action": str, "at": int, "result": str}
ROW: t.Mapping[str, t.Any] = {
    **dict.fromkeys(("gpu", "serial", "pci", "verdict", "stage", "evidence", "next"), str),
    "open": bool,
    "reasons": [str],
    "since": int,
    "attempts": [ATTEMPT],
}
GIVES_BACK = "gpu.node.repair proves it and gives it back"
# What comes next where it is not the verdict that says so.
BY_STAGE: t.Mapping[str, str] = {
    repair_case.RESET: GIVES_BACK,
    repair_case.RESTORED: GIVES_BACK,
    repair_case.PROVED: "gpu.node.repair gives it back",
    repair_case.RELEASED: "",
}
BY_ACTION: t.Mapping[Action, str] = {
    **dict.fromkeys(Action, GIVES_BACK),
    **{
        action: "gpu.node.repair resets it, proves it and gives it back"
        for action in Action
        if action.resets
    },
    **WAITS,
    Action.REPLACE: f"{WAITS[Action.REPLACE]}, in the file of gpu.node.gpu_evidence with stage: rma",
}


def rows(cases: RepairCases) -> t.List[Json]:
    """Return the cases, JSON-able, also those that are over. Times are in seconds since 1970."""
    return [_row(uuid, gpu) for uuid, gpu in cases.gpus.items()]


def _row(uuid: str, case: RepairCase) -> Json:
    return {
        "gpu": uuid,
        "serial": case.serial,
        "pci": case.pci,
        "open": case.is_open,
        "verdict": case.verdict.name.lower(),
        "reasons": list(case.reasons[:MOST_REASONS]),
        "since": int(case.since),
        "stage": case.stage,
        "attempts": [
            {"action": attempt.action.name.lower(), "at": int(attempt.at), "result": attempt.result}
            for attempt in case.attempts
        ],
        "evidence": case.evidence,
        "next": upcoming(case),
    }


def upcoming(case: RepairCase) -> str:
    """Return what comes next for a GPU, empty where nothing does."""
    return BY_STAGE.get(case.stage, BY_ACTION[case.verdict])
