# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The answer of ``nvbandwidth --json`` 0.5 to 0.8, as its json_output.cpp writes it.

It ends with status 0 also if a test has failed, was waived, or is not known, so each test has to be there once, passed,
and with as many numbers as there are GPUs. A value that was not measured is the text "N/A".
"""

from __future__ import annotations

import re
import typing as t

from ..._base.text import json_data
from ..result import NVBANDWIDTH, TOOLS
from .findings import (
    ToolResult,
    ToolRun,
    ending,
    find_documents,
    is_number,
    is_of_hardware,
    reason_of,
)

TITLE = TOOLS[NVBANDWIDTH]
PASSED, RUNNING, WAIVED, ERROR = "Passed", "Running", "Waived", "Error"
UNIT = "GB/s"
NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,2})?")
# The figures by test. Tests of the host have a row with a column for each GPU, and those of peers a square.
HOST_FIGURES: t.Mapping[str, str] = {
    "host_to_device_memcpy_ce": "nvbandwidth_host_to_device_gb_per_s",
    "device_to_host_memcpy_ce": "nvbandwidth_device_to_host_gb_per_s",
}
PEER_FIGURES: t.Mapping[str, str] = {
    "device_to_device_memcpy_read_ce": "nvbandwidth_peer_read_gb_per_s",
    "device_to_device_memcpy_write_ce": "nvbandwidth_peer_write_gb_per_s",
}
# The assertion on what was copied, and what its kernel prints.
CORRUPT = ("h_errorFlag == 0", "Invalid value when checking the pattern")

Pairs = t.Collection[t.Tuple[str, str]]


def bandwidth_tests(pairs: Pairs) -> t.Tuple[str, ...]:
    """Return the tests to run: those of peers only if GPUs can access each other."""
    return (*HOST_FIGURES, *(PEER_FIGURES if pairs else ()))


def parse_bandwidth(run: ToolRun, gpus: t.Sequence[str], pairs: Pairs) -> ToolResult:
    """Return the result of the tests of GPUs.

    Args:
        run: How the tool ended, and what it wrote.
        gpus: The UUIDs of the GPUs, in the order of CUDA_VISIBLE_DEVICES.
        pairs: The UUIDs of GPUs that can access each other, from one to the other.
    """
    result = ToolResult(TITLE, tuple(gpus))
    try:
        document = _document(run)
        result.version = json_data.text(document.get("version", ""))
        error = json_data.text(document.get("error", ""))
        if error:
            _judge_error(" ".join(error.split()), result)
            return result
        devices = document.get("GPU Device list")
        if devices is not None and len(json_data.rows(devices)) != len(gpus):
            raise ValueError(f"it saw {len(devices)} GPUs, of {len(gpus)}")
        cases = _cases(document)
    except json_data.MISREAD as error:
        result.add_unmeasured(reason_of(error))
        return result
    for name in dict.fromkeys((*bandwidth_tests(pairs), *cases)):
        _judge_test(name, cases.get(name, []), pairs, result)
    if run.status != 0:
        result.add_unmeasured(ending(run._replace(output="")))
    return result


def _document(run: ToolRun) -> t.Dict[str, t.Any]:
    """Return the answer.

    Raises:
        ValueError: if there is none; its text is the reason.
    """
    answers = [data[TITLE] for data in find_documents(run.output) if TITLE in data]
    if len(answers) != 1:
        raise ValueError(ending(run) if not answers else "it has several answers")
    answer = answers[0]
    if not isinstance(answer, dict):
        raise TypeError("no answer")
    return answer


def _cases(document: t.Mapping[str, t.Any]) -> t.Dict[str, t.List[t.Dict[str, t.Any]]]:
    """Return the entries of each test; a test that has failed may have several."""
    cases: t.Dict[str, t.List[t.Dict[str, t.Any]]] = {}
    for case in document.get("testcases") or ():
        if not isinstance(case["name"], str) or not isinstance(case["status"], str):
            raise TypeError("no test")
        cases.setdefault(case["name"], []).append(case)
    return cases


def _judge_error(error: str, result: ToolResult) -> None:
    """Add an error that has ended the tool: a fault if it is of the GPUs."""
    if any(text in error for text in CORRUPT):
        result.add_fault("copied data is wrong")
    elif is_of_hardware(error):
        result.add_fault(error)
    else:
        result.add_unmeasured(error)


def _judge_test(
    name: str, cases: t.Sequence[t.Mapping[str, t.Any]], pairs: Pairs, result: ToolResult
) -> None:
    statuses = [case["status"] for case in cases]
    errors = [json_data.text(case.get("error", "")) for case in cases]
    if ERROR in statuses or any(errors):
        text = " ".join(filter(None, errors)) or f"it ended with status {ERROR}"
        result.add_fault(f"{name}: {text}")
    elif not cases:
        result.add_unmeasured("it did not run", name)
    elif statuses == [PASSED]:
        try:
            _judge_matrix(name, cases[0], pairs, result)
        except json_data.MISREAD as error:
            result.add_unmeasured(reason_of(error), name)
    else:
        result.add_unmeasured(f"its status is {', '.join(statuses)}", name)


def _judge_matrix(name: str, case: t.Mapping[str, t.Any], pairs: Pairs, result: ToolResult) -> None:
    """Add the figures of a test, and which of its numbers are missing.

    Raises:
        ValueError: if the matrix is of another size or unit; its text is the reason.
    """
    gpus, figure = result.gpus, {**HOST_FIGURES, **PEER_FIGURES}.get(name)
    if figure is None:
        return  # nobody asked for its numbers
    if UNIT not in case["bandwidth_description"]:
        raise ValueError(f"its numbers are not in {UNIT}")
    matrix = [[_number(value) for value in row] for row in case["bandwidth_matrix"]]
    height = len(gpus) if name in PEER_FIGURES else 1
    if len(matrix) != height or any(len(row) != len(gpus) for row in matrix):
        raise ValueError(f"its numbers are not those of {len(gpus)} GPUs")
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            pair = (gpus[row], gpus[column])
            if name in HOST_FIGURES:
                _add(name, figure, value, pair[1:], result)
            elif pair in pairs:
                _add(name, figure, value, pair, result)


def _add(name: str, figure: str, value: float, uuids: t.Sequence[str], result: ToolResult) -> None:
    for uuid in uuids:
        if value:
            result.add_figure(figure, value, uuid)
        else:
            result.add_unmeasured("a number is missing", name, uuid)


def _number(value: object) -> float:
    """Return a bandwidth, 0 if there is none."""
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        return 0.0
    number = float(value)
    return number if is_number(number) else 0.0
