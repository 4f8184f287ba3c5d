# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The answer of ``dcgmi diag --json`` of DCGM 4, as dcgmi/Diag.cpp writes it.

It ends with status 0 also if tests were skipped or did not run, so each GPU needs a ``Pass`` of each test of its level.
DCGM 3 and older write another root, which is refused.
"""

from __future__ import annotations

import typing as t

from ..._base.text import json_data
from ..result import DCGMI, TOOLS
from .findings import ToolResult, ToolRun, ending, find_documents, reason_of

TITLE = TOOLS[DCGMI]
ROOT, OLD_ROOT, ITERATIONS = "DCGM Diagnostic", "DCGM GPU Diagnostic", "iterations"
GPU_GROUP = "GPU"
PASS, SKIP, FAIL = "Pass", "Skip", "Fail"
SKIPPED = "it was skipped"
# DCGM_ERROR_CONFIG, the severity of what is a setting of the node, such as persistence mode.
SETTING = 5
# The tests of a level that every data center GPU can do. What else a level has may need further packages.
TESTS: t.Mapping[int, t.Tuple[str, ...]] = {
    2: ("software", "memory", "pcie"),
    3: (
        "software",
        "memory",
        "pcie",
        "diagnostic",
        "memory_bandwidth",
        "targeted_stress",
        "targeted_power",
    ),
}
FAILED = (205, 226)  # the statuses of a diagnostic that has run and names its errors
# dcgmReturn_t modulo 256.
STATUSES: t.Mapping[int, str] = {
    190: "the diagnostic was stopped",
    204: "DCGM's program nvvs is not installed",
    205: "a GPU has to be isolated",
    213: "a threshold was exceeded",
    215: "DCGM's program nvvs can't be started",
    216: "DCGM's program nvvs wrote no JSON",
    217: "another diagnostic is running",
    226: "a test failed",
}


class DiagGpu(t.NamedTuple):
    """A GPU of a diagnostic: its UUID, NVML's index by which it was named, and its serial number, empty if unknown."""

    uuid: str
    number: int
    serial: str = ""


class DiagRow(t.NamedTuple):
    """The status of a test: of an entity, or the summary of all if ``group`` is empty.

    ``errors`` are texts, each with its severity, and ``note`` is what DCGM says besides, such as why it skips a test.
    """

    test: str
    group: str
    entity: int
    status: str
    errors: t.Tuple[t.Tuple[str, int], ...]
    note: str

    @property
    def text(self) -> str:
        """The errors, empty if there is none."""
        return _joined(self.errors)

    @property
    def where(self) -> str:
        """The entity as texts name it, unless it is a GPU."""
        return f" of {self.group} {self.entity}" if self.group not in ("", GPU_GROUP) else ""


def parse_diag(run: ToolRun, gpus: t.Sequence[DiagGpu], level: int) -> ToolResult:
    """Return the result of a diagnostic of GPUs at a level, 2 or 3."""
    result = ToolResult(TITLE, tuple(gpu.uuid for gpu in gpus))
    try:
        document = _document(run)
        result.version = _version(document)
        error = json_data.text(document[ROOT].get("runtime_error", ""))
        if error:
            raise ValueError(error)
        uuids = _uuids_by_entity(document, gpus)
        rows = _rows(document[ROOT]["test_categories"])
        for row in rows:
            if row.group == GPU_GROUP and row.entity not in uuids:
                raise ValueError(f"it tested GPU {row.entity}, which it was not asked for")
    except json_data.MISREAD as error:
        result.add_unmeasured(reason_of(error))
        return result
    for row in rows:
        _judge(row, rows, uuids, level, result)
    for test in TESTS[level]:
        present = {uuids[row.entity] for row in rows if row.test == test and row.group == GPU_GROUP}
        for uuid in result.gpus:
            if uuid not in present:
                result.add_unmeasured("it did not run", test, uuid)
    explained = run.status in FAILED and any(row.status == FAIL or row.errors for row in rows)
    if run.status != 0 and not explained:
        result.add_unmeasured(ending(run._replace(output=""), STATUSES))
    return result


def _document(run: ToolRun) -> t.Dict[str, t.Any]:
    """Return the answer of a diagnostic.

    Raises:
        ValueError: if there is none, or one of another form; its text is the reason.
    """
    documents = find_documents(run.output)
    for document in documents:
        if OLD_ROOT in document:
            raise ValueError("its answer is of DCGM 3 or older, which is not read: install DCGM 4")
        if ITERATIONS in document:
            raise ValueError("its answer is of several iterations, of which none is read")
    answers = [document for document in documents if ROOT in document]
    if len(answers) != 1:
        raise ValueError(ending(run, STATUSES) if not answers else "it has several answers")
    return answers[0]


def _version(document: t.Mapping[str, t.Any]) -> str:
    sources = (json_data.table(document.get("metadata")), json_data.table(document[ROOT]))
    versions = (json_data.text(source.get("version", "")) for source in sources)
    return next(filter(None, versions), "")


def _uuids_by_entity(
    document: t.Mapping[str, t.Any], gpus: t.Sequence[DiagGpu]
) -> t.Dict[int, str]:
    """Return the UUIDs of GPUs by their numbers in DCGM, which are those of NVML unless a serial number says otherwise.

    Raises:
        ValueError: if the diagnostic has tested a GPU that is none of them.
    """
    serials = {gpu.serial: gpu.uuid for gpu in gpus}
    numbers = {gpu.number: gpu.uuid for gpu in gpus}
    if len(serials) < len(gpus) or "" in serials:
        return numbers  # boards without serial numbers, or several GPUs of a board
    uuids: t.Dict[int, str] = {}
    for group in document.get("entity_groups", []):
        for entity in group["entities"] if group["entity_group"] == GPU_GROUP else ():
            serial = json_data.text(entity.get("serial_num", ""))
            if serial and serial not in serials:
                raise ValueError("it tested a GPU with another serial number")
            if serial:
                uuids[entity["entity_id"]] = serials[serial]
    return uuids or numbers


def _rows(categories: t.Sequence[t.Any]) -> t.List[DiagRow]:
    rows = []
    for test in (test for category in categories for test in category.get("tests", ())):
        name = _text(test["name"]).lower().replace(" ", "_")
        for entry in test.get("results", ()):
            if not json_data.is_whole(entry["entity_id"]):
                raise TypeError("no number of an entity")
            row = (name, _text(entry["entity_group"]), entry["entity_id"])
            rows.append(DiagRow(*row, _text(entry["status"]), _errors(entry), _note(entry)))
        summary = test.get("test_summary")
        if summary is not None:
            rows.append(
                DiagRow(name, "", 0, _text(summary["status"]), _errors(summary), _note(summary))
            )
    return rows


def _text(value: object) -> str:
    """Return a text.

    Raises:
        TypeError: if it is none, or empty.
    """
    if not isinstance(value, str) or not value:
        raise TypeError("no text")
    return value


def _errors(entry: t.Mapping[str, t.Any]) -> t.Tuple[t.Tuple[str, int], ...]:
    return tuple(
        (
            f"{_text(warning['warning'])} (error {int(warning['error_id'])})",
            warning["error_severity"],
        )
        for warning in entry.get("warnings", ())
    )


def _note(entry: t.Mapping[str, t.Any]) -> str:
    return "; ".join(filter(None, map(json_data.text, json_data.rows(entry.get("info")))))


def _joined(errors: t.Iterable[t.Tuple[str, int]]) -> str:
    return "; ".join(text for text, _severity in errors)


def _judge(
    row: DiagRow,
    rows: t.Sequence[DiagRow],
    uuids: t.Mapping[int, str],
    level: int,
    result: ToolResult,
) -> None:
    """Add what a row says, to its GPU or, if it is of something else, to all GPUs."""
    targets = (uuids[row.entity],) if row.group == GPU_GROUP else ()
    peers = [other for other in rows if other.test == row.test]
    if row.status == FAIL:
        # A summary repeats the errors of all entities, and has alone those of none.
        if not row.group and any(other.status == FAIL for other in peers if other.group):
            return
        summaries = [error for other in peers if not other.group for error in other.errors]
        errors = row.errors or tuple(summaries)
        if errors and all(severity == SETTING for _error, severity in errors):
            reason = f"it failed by a setting of the node: {_joined(errors)}"
            result.add_unmeasured(reason, f"{row.test}{row.where}", *targets)
        else:
            result.add_fault(f"{row.test}{row.where}: {_joined(errors) or 'it failed'}", *targets)
    elif row.status == SKIP and row.test not in TESTS[level]:
        result.add_left_out(row.note or SKIPPED, row.test)
    elif row.status == SKIP:
        result.add_unmeasured(row.text or row.note or SKIPPED, row.test, *targets)
    elif row.status != PASS:
        text = ": ".join(filter(None, (f"its status is {row.status}", row.text)))
        result.add_unmeasured(text, row.test, *targets)
    elif row.errors and (row.group or not any(other.errors for other in peers if other.group)):
        result.add_unmeasured(f"it passed with {row.text}", row.test, *targets)
