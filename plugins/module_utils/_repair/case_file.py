# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file that keeps a node's cases: strict, and with bounds on all that is read."""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.text import json_data
from .._base.text.shown import shown
from .actions import NAMES, Action
from .case import (
    FAILED,
    FORGET,
    LONGEST,
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
    bounded,
    seconds,
    written,
)

VERSION = 1


def parse(text: t.Optional[str]) -> Cases:
    """Return what a file says, nothing where there is none. NodeError: it can't be understood."""
    if text is None:
        return NOBODY
    with readable(PATH, FORGET):
        data = _keys("it", json_data.loads(text), "version", "lease", "gpus")
        if not json_data.is_whole(data["version"]) or data["version"] != VERSION:
            raise ValueError(f"version {shown(data['version'])} is not known, {VERSION} is")
        gpus = data["gpus"]
        if not isinstance(gpus, dict) or len(gpus) > MOST_CASES:
            raise ValueError(f"expected at most {MOST_CASES} cases by the GPUs' UUIDs")
        return Cases(
            None if data["lease"] is None else _lease(data["lease"]),
            {_name(uuid): _read(uuid, one) for uuid, one in gpus.items()},
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
        "verdict": case.verdict.name.lower(),
        "reasons": list(case.reasons),
        "since": written(case.since),
        "stopped": list(case.stopped),
        "attempts": [
            {"action": one.action.name.lower(), "at": written(one.at), "result": one.result}
            for one in case.attempts
        ],
    }


def _read(uuid: str, data: object) -> Case:
    name = f"gpus.{uuid}"
    found = _keys(name, data, *_data(Case()))
    stage = found["stage"]
    if stage not in (*STAGES, FAILED):
        raise ValueError(f"{name}.stage: {shown(stage)} is not known")
    attempts = _list(f"{name}.attempts", found["attempts"], MOST_ATTEMPTS)
    return Case(
        _known(f"{name}.serial", found["serial"]),
        _known(f"{name}.pci", found["pci"]),
        _action(f"{name}.verdict", found["verdict"]),
        _texts(f"{name}.reasons", found["reasons"]),
        _time(f"{name}.since", found["since"]),
        Boot(*(_known(f"{name}.{key}", found[key]) for key in Boot._fields)),
        stage,
        _texts(f"{name}.stopped", found["stopped"]),
        tuple(_tried(f"{name}.attempts", one) for one in attempts),
        _known(f"{name}.evidence", found["evidence"]),
    )


def _tried(name: str, data: object) -> Tried:
    found = _keys(name, data, *Tried._fields)
    return Tried(
        _action(f"{name}.action", found["action"]),
        _time(f"{name}.at", found["at"]),
        _known(f"{name}.result", found["result"]),
    )


def _lease(data: object) -> Lease:
    found = _keys("lease", data, *Lease._fields)
    if not found["holder"]:
        raise ValueError("lease.holder: expected who has the node")
    return Lease(
        _known("lease.holder", found["holder"]),
        _time("lease.since", found["since"]),
        _known("lease.boot_id", found["boot_id"]),
    )


def _keys(name: str, data: object, *keys: str) -> t.Dict[str, t.Any]:
    if not isinstance(data, dict) or set(data) != set(keys):
        raise ValueError(f"{name}: expected {', '.join(keys)}")
    return data


def _name(uuid: str) -> str:
    if not uuid or bounded(uuid) != uuid:
        raise ValueError(f"gpus: {shown(uuid)} is no UUID of a GPU")
    return uuid


def _known(name: str, value: object) -> str:
    if not isinstance(value, str) or bounded(value) != value:
        raise ValueError(f"{name}: expected a text of at most {LONGEST} characters")
    return value


def _list(name: str, value: object, most: int = MOST_WORDS) -> t.List[t.Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{name}: expected a list of at most {most}")
    return value


def _texts(name: str, value: object) -> t.Tuple[str, ...]:
    return tuple(_known(name, one) for one in _list(name, value))


def _action(name: str, value: object) -> Action:
    if not isinstance(value, str) or value not in NAMES:
        raise ValueError(f"{name}: {shown(value)} is not known")
    return NAMES[value]


def _time(name: str, value: object) -> float:
    try:
        return seconds(json_data.text(value))
    except ValueError:
        raise ValueError(f"{name}: {shown(value)} is no time such as {written(0)}") from None
