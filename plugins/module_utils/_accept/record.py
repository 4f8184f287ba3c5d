# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The record of accepted GPUs: results by UUID, each with what it is good for.

A pass is good for the driver, board and firmware that it names, and until the next repair. The file is root's alone.
"""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.text import json_data, strict
from .._base.text.strict import bounded, second, written
from .._node.gate import RECORD
from .._repair.case import RepairCases
from .result import FAILED, INCOMPLETE, LEVELS, PASSED, QUICK, STANDARD, TOOLS, GpuResult

PATH = RECORD
VERSION = 1
MOST_GPUS, MOST_TEXTS, MOST_FIGURES = 128, 32, 64
STARTED = "started"  # a test that was cut off leaves no pass behind
UNACCEPTED: t.Mapping[str, str] = {
    STARTED: "its last test was cut off",
    FAILED: "its last test has failed",
    INCOMPLETE: "its last test was incomplete",
}
VERDICTS = (PASSED, *UNACCEPTED)
DAY = 86400.0
REMOVE = f"remove {PATH} and run gpu.node.accept again"


class Identity(t.NamedTuple):
    """What a result is good for: the board in its slot, the driver and the firmware."""

    driver: str = ""
    vbios: str = ""
    inforom: str = ""
    board: str = ""
    serial: str = ""
    pci: str = ""


NAMES: t.Mapping[str, str] = {
    "driver": "the driver",
    "vbios": "the VBIOS",
    "inforom": "the InfoROM",
    "board": "the board",
    "serial": "the serial number",
    "pci": "the slot",
}


class RequiredLevel(t.NamedTuple):
    """How much a test has to test: its level, that of dcgmi diag, and the tools by their names."""

    name: str = QUICK
    dcgm: int = 0
    tools: t.Tuple[str, ...] = ()


ANY_LEVEL = RequiredLevel()


class Acceptance(t.NamedTuple):
    """The result of a GPU's last test, ``at`` in seconds since 1970, in the boot of this ID.

    ``level`` is how much was tested, with the level of dcgmi diag and the versions of the tools. A file of a test at
    level quick has none of the three.
    """

    verdict: str
    identity: Identity = Identity()
    at: float = 0.0
    boot: str = ""
    figures: t.Mapping[str, float] = {}
    faults: t.Tuple[str, ...] = ()
    unmeasured: t.Mapping[str, str] = {}
    level: str = QUICK
    dcgm_level: int = 0
    tools: t.Mapping[str, str] = {}

    @classmethod
    def from_result(cls, result: GpuResult, identity: Identity, at: float, boot: str) -> Acceptance:
        """Return the entry for a result, within the bounds of the file."""
        return cls(
            result.verdict,
            Identity(*map(bounded, identity)),
            second(at),
            bounded(boot),
            dict(list(result.figures.items())[:MOST_FIGURES]),
            tuple(map(bounded, result.faults[:MOST_TEXTS])),
            {
                bounded(name): bounded(reason)
                for name, reason in list(result.unmeasured.items())[:MOST_TEXTS]
            },
            result.level,
            result.dcgm_level,
            {name: bounded(version) for name, version in result.tools.items() if name in TOOLS},
        )


# The fields that only a test at level standard writes, with what they are without it.
STANDARD_FIELDS: t.Mapping[str, t.Any] = {
    name: Acceptance._field_defaults[name] for name in ("level", "dcgm_level", "tools")
}

Record = t.Mapping[str, Acceptance]


def reason_to_test(
    acceptance: t.Optional[Acceptance],
    identity: Identity,
    *,
    repaired_at: float,
    current_time: float,
    valid_days: int = 0,
    floors: t.Mapping[str, float],
    required: RequiredLevel = ANY_LEVEL,
) -> str:
    """Return why a GPU has to be tested, empty if it was accepted as it is.

    Args:
        acceptance: Its entry in the record.
        identity: What it is at present.
        repaired_at: When a repair last acted on it, in seconds since 1970, 0 if never.
        current_time: In seconds since 1970.
        valid_days: How many days a pass is good for, 0 for any time.
        floors: The least that figures may be.
        required: How much has to be tested. A pass at level standard is one at level quick, too.
    """
    if acceptance is None:
        return "it was never tested"
    if acceptance.verdict in UNACCEPTED:
        return UNACCEPTED[acceptance.verdict]
    for field, name in NAMES.items():
        tested, present = getattr(acceptance.identity, field), getattr(identity, field)
        if tested != present:
            return f"{name} was {tested or 'unknown'} and is {present or 'unknown'}"
    less = _lower_level(acceptance, required)
    if less:
        return less
    if repaired_at > acceptance.at:
        return f"it was repaired at {written(repaired_at)}, after its test"
    if acceptance.at > current_time:
        return f"its test is of {written(acceptance.at)}, and the node's clock says {written(current_time)}"
    if valid_days and current_time - acceptance.at > valid_days * DAY:
        return f"its test is of {written(acceptance.at)}, longer than {valid_days} days ago"
    for figure, floor in floors.items():
        if acceptance.figures.get(figure, floor) < floor:
            return f"its {figure} was less than its floor of {floor:g}"
    return ""


def _lower_level(acceptance: Acceptance, required: RequiredLevel) -> str:
    """Return how a test has tested less than is required, empty if it has not."""
    if required.name != STANDARD:
        return ""
    if acceptance.level != STANDARD:
        return f"it was tested at level {acceptance.level}"
    missing = [tool for tool in required.tools if tool not in acceptance.tools]
    if missing:
        return f"it was tested without {', '.join(missing)}"
    if acceptance.dcgm_level < required.dcgm:
        return f"dcgmi diag has tested it at level {acceptance.dcgm_level}"
    return ""


class JudgedGpu(t.NamedTuple):
    """A GPU with its entry in the record, None if it has none, and why it is not accepted as it is, empty if it is."""

    uuid: str
    acceptance: t.Optional[Acceptance]
    reason: str


def judge_gpus(
    record: Record, gpus: t.Mapping[str, Identity], cases: RepairCases, current_time: float
) -> t.Tuple[JudgedGpu, ...]:
    """Return the GPUs, given by UUID, with what the record says of them."""
    return tuple(
        JudgedGpu(
            uuid,
            record.get(uuid),
            reason_to_test(
                record.get(uuid),
                identity,
                repaired_at=cases.reset_at(uuid),
                current_time=current_time,
                floors={},
            ),
        )
        for uuid, identity in gpus.items()
    )


class Unaccepted(t.NamedTuple):
    """The GPUs of a record that are not accepted as they are, each as a text: those with faults, and all others."""

    faulty: t.Tuple[str, ...] = ()
    untested: t.Tuple[str, ...] = ()

    @classmethod
    def from_gpus(cls, gpus: t.Iterable[JudgedGpu]) -> Unaccepted:
        """Return those of GPUs that are not accepted."""
        faulty, untested = [], []
        for gpu in gpus:
            if gpu.acceptance is not None and gpu.acceptance.faults:
                faulty.append(f"GPU {gpu.uuid}: {'; '.join(gpu.acceptance.faults)}")
            elif gpu.reason:
                untested.append(f"GPU {gpu.uuid}: {gpu.reason}")
        return cls(tuple(faulty), tuple(untested))


def standing_faults(
    acceptance: t.Optional[Acceptance], required: RequiredLevel
) -> t.Tuple[str, ...]:
    """Return the faults that a tool has found and that a test without this tool can't refute."""
    if acceptance is None:
        return ()
    titles = tuple(f"{title}: " for name, title in TOOLS.items() if name not in required.tools)
    return tuple(fault for fault in acceptance.faults if fault.startswith(titles))


def dump_record(record: Record) -> str:
    """Return the record as its file has it; the newest entries where there are more than it takes."""
    newest = sorted(record.items(), key=lambda item: item[1].at, reverse=True)[:MOST_GPUS]
    gpus = {
        uuid: {
            **_fields(acceptance),
            "identity": acceptance.identity._asdict(),
            "at": written(acceptance.at),
            "faults": list(acceptance.faults),
        }
        for uuid, acceptance in newest
    }
    return json.dumps({"version": VERSION, "gpus": gpus}, indent=1, sort_keys=True) + "\n"


def _fields(acceptance: Acceptance) -> t.Dict[str, t.Any]:
    """Return the fields that the file has, as releases without levels read it, too."""
    fields = acceptance._asdict()
    if acceptance.level == QUICK:
        return {name: value for name, value in fields.items() if name not in STANDARD_FIELDS}
    return fields


def parse_record(text: t.Optional[str]) -> t.Dict[str, Acceptance]:
    """Return the record that a file has, empty if there is none.

    Raises:
        NodeError: if the file is damaged.
    """
    if text is None:
        return {}
    with readable(PATH, REMOVE):
        data = strict.keys("the record", json_data.loads(text), "version", "gpus")
        strict.version(data["version"], VERSION)
        gpus = strict.by_uuid("the record", data["gpus"], MOST_GPUS, "GPUs")
        return {uuid: _parse(uuid, entry) for uuid, entry in gpus.items()}


def _parse(uuid: str, data: object) -> Acceptance:
    filled = {**STANDARD_FIELDS, **data} if isinstance(data, dict) else data
    entry = strict.keys(uuid, filled, *Acceptance._fields)
    if entry["level"] not in LEVELS or not json_data.is_whole(entry["dcgm_level"]):
        raise ValueError(
            f"{uuid}: expected a level, one of {', '.join(LEVELS)}, and one of dcgmi diag"
        )
    if entry["verdict"] not in VERDICTS:
        raise ValueError(f"{uuid}: expected a verdict, one of {', '.join(VERDICTS)}")
    identity = strict.keys(uuid, entry["identity"], *Identity._fields)
    figures, unmeasured, tools = (
        _mapping(uuid, entry[key]) for key in ("figures", "unmeasured", "tools")
    )
    for figure in figures.values():
        if isinstance(figure, bool) or not isinstance(figure, (int, float)):
            raise ValueError(f"{uuid}: expected figures to be numbers")
    return Acceptance(
        entry["verdict"],
        Identity(**{key: strict.text(key, value) for key, value in identity.items()}),
        strict.time(uuid, entry["at"]),
        strict.text(uuid, entry["boot"]),
        {name: float(figure) for name, figure in figures.items()},
        tuple(
            strict.text(uuid, fault) for fault in strict.listed(uuid, entry["faults"], MOST_TEXTS)
        ),
        {name: strict.text(uuid, reason) for name, reason in unmeasured.items()},
        entry["level"],
        entry["dcgm_level"],
        {name: strict.text(uuid, version) for name, version in tools.items()},
    )


def _mapping(uuid: str, data: object) -> t.Dict[str, t.Any]:
    if not isinstance(data, dict) or len(data) > MOST_FIGURES:
        raise ValueError(f"{uuid}: expected at most {MOST_FIGURES} values by their names")
    return {strict.text(uuid, name): value for name, value in data.items()}
