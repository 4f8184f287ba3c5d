# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file that keeps a node's cases: strict, and with bounds on all that is read."""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.text import json_data, strict
from .._base.text.shown import shown
from .._base.text.strict import written
from .actions import NAMES, Action
from .case import (
    FAILED,
    FORGET,
    MOST_ATTEMPTS,
    MOST_CASES,
    MOST_WORDS,
    NOBODY,
    PATH,
    STAGES,
    Boot,
    Case,
    Cases,
    Lease,
    Tried,
)

VERSION = 1


def parse(text: t.Optional[str]) -> Cases:
    """Return what a file says, nothing where there is none. NodeError: it can't be understood."""
    if text is None:
        return NOBODY
    with readable(PATH, FORGET):
        data = strict.keys("it", json_data.loads(text), "version", "lease", "gpus")
        strict.version(data["version"], VERSION)
        gpus = strict.by_uuid("gpus", data["gpus"], MOST_CASES, "cases")
        return Cases(
            None if data["lease"] is None else _lease(data["lease"]),
            {uuid: _read(uuid, one) for uuid, one in gpus.items()},
        )


def dump(cases: Cases) -> str:
    """Return the file's text."""
    return json.dumps(data_of(cases), indent=1) + "\n"


def data_of(cases: Cases) -> t.Dict[str, t.Any]:
    """Return the same as data."""
    lease = cases.lease
    return {
        "version": VERSION,
        "lease": None if lease is None else {**lease._asdict(), "since": written(lease.since)},
        "gpus": {uuid: _data(one) for uuid, one in cases.gpus.items()},
    }


def _data(case: Case) -> t.Dict[str, t.Any]:
    data = case._asdict()
    return {
        **{key: data[key] for key in ("serial", "pci", "stage", "evidence")},
        **case.boot._asdict(),
        "verdict": case.verdict.word,
        "reasons": list(case.reasons),
        "since": written(case.since),
        "stopped": list(case.stopped),
        "attempts": [
            {"action": one.action.word, "at": written(one.at), "result": one.result}
            for one in case.attempts
        ],
    }


def _read(uuid: str, data: object) -> Case:
    name = f"gpus.{uuid}"
    found = strict.keys(name, data, *_data(Case()))
    stage = found["stage"]
    if stage not in (*STAGES, FAILED):
        raise ValueError(f"{name}.stage: {shown(stage)} is not known")
    attempts = strict.listed(f"{name}.attempts", found["attempts"], MOST_ATTEMPTS)
    return Case(
        strict.text(f"{name}.serial", found["serial"]),
        strict.text(f"{name}.pci", found["pci"]),
        _action(f"{name}.verdict", found["verdict"]),
        _texts(f"{name}.reasons", found["reasons"]),
        strict.time(f"{name}.since", found["since"]),
        Boot(*(strict.text(f"{name}.{key}", found[key]) for key in Boot._fields)),
        stage,
        _texts(f"{name}.stopped", found["stopped"]),
        tuple(_tried(f"{name}.attempts", one) for one in attempts),
        strict.text(f"{name}.evidence", found["evidence"]),
    )


def _tried(name: str, data: object) -> Tried:
    found = strict.keys(name, data, *Tried._fields)
    return Tried(
        _action(f"{name}.action", found["action"]),
        strict.time(f"{name}.at", found["at"]),
        strict.text(f"{name}.result", found["result"]),
    )


def _lease(data: object) -> Lease:
    found = strict.keys("lease", data, *Lease._fields)
    if not found["holder"]:
        raise ValueError("lease.holder: expected who has the node")
    return Lease(
        strict.text("lease.holder", found["holder"]),
        strict.time("lease.since", found["since"]),
        strict.text("lease.boot_id", found["boot_id"]),
    )


def _texts(name: str, value: object) -> t.Tuple[str, ...]:
    return tuple(strict.text(name, one) for one in strict.listed(name, value, MOST_WORDS))


def _action(name: str, value: object) -> Action:
    if not isinstance(value, str) or value not in NAMES:
        raise ValueError(f"{name}: {shown(value)} is not known")
    return NAMES[value]
