# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file that ``all_reduce_perf -J`` of nccl-tests 2.17.3 to 2.19 writes, by its src/util.cu.

A version without that option prints its usage and ends with status 0. A run that has died may leave a file that is
whole but for its last parts. The file has the tool's environment and arguments, which may be secret: only what is named
here is read, and nothing else of it is kept or shown.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.text import json_data
from ..result import ALL_REDUCE, TOOLS
from .findings import (
    ToolResult,
    ToolRun,
    ending,
    find_documents,
    is_number,
    is_of_hardware,
    reason_of,
)

TITLE = TOOLS[ALL_REDUCE]
FIGURE = "nccl_all_reduce_gb_per_s"
FORMATS = (1, 2, 3)  # JSON_FILE_VERSION
PLACES = ("out_of_place", "in_place")
VERSION = re.compile(r"^# nccl-tests version (\S{1,40})", re.MULTILINE)
TOO_OLD = re.compile(r"invalid option|^USAGE:", re.MULTILINE)
# testResult_t.
STATUSES: t.Mapping[int, str] = {
    1: "an internal error",
    2: "CUDA failed",
    3: "NCCL failed",
    4: "it timed out",
    5: "it is not implemented, or there are too few GPUs",
    6: "its options are not valid",
    7: "values are wrong, or the bandwidth is below NCCL_TESTS_MIN_BW",
}


def parse_all_reduce(run: ToolRun, gpus: t.Sequence[str], largest: int) -> ToolResult:
    """Return the result of an all-reduce of GPUs. Each of them takes part in it, so that a fault is of all of them.

    Args:
        run: How the tool ended, and what it wrote.
        gpus: The UUIDs of the GPUs.
        largest: The size in bytes up to which it was to measure.
    """
    result = ToolResult(TITLE, tuple(gpus))
    version = VERSION.search(run.output)
    result.version = version.group(1) if version else ""
    try:
        document = _document(run)
        if not json_data.is_whole(document["version"]) or document["version"] not in FORMATS:
            raise ValueError("its file is of a form that is not known")
        result.version = result.version or _nccl_version(document.get("nccl_version"))
        _judge_ranks(document["config"], len(gpus))
        _judge_sizes(document["results"], largest, result)
        _judge_footer(document, result)
    except json_data.MISREAD as error:
        result.add_unmeasured(reason_of(error), ALL_REDUCE)
    if run.status != 0:
        text = ending(run, STATUSES)
        if run.status is not None and is_of_hardware(text):
            result.add_fault(f"{ALL_REDUCE}: {text}")
        elif not result.faults:
            result.unmeasured.clear()
            result.add_unmeasured(text, ALL_REDUCE)
    return result


def _document(run: ToolRun) -> t.Dict[str, t.Any]:
    """Return the file's data.

    Raises:
        ValueError: if there is none; its text is the reason, with nothing of the file.
    """
    documents = find_documents(run.document)
    if len(documents) == 1:
        return documents[0]
    if run.document:
        raise ValueError("its file is cut off")
    if TOO_OLD.search(run.output):
        raise ValueError("it knows no option -J: install nccl-tests 2.17.3 or later")
    raise ValueError(ending(run, STATUSES) if run.status else "it wrote no file")


def _nccl_version(value: object) -> str:
    """Return NCCL's version of a number such as 22703."""
    if not json_data.is_whole(value) or not 10000 <= value < 10**7:
        return ""
    return f"NCCL {value // 10000}.{value // 100 % 100}.{value % 100}"


def _judge_ranks(config: t.Mapping[str, t.Any], number: int) -> None:
    """Check how many GPUs took part. The list of devices has only the first of each process.

    Raises:
        ValueError: if it is another number.
    """
    threads, gpus = config["nthreads"], config["ngpus"]
    if not json_data.is_whole(threads) or not json_data.is_whole(gpus):
        raise TypeError("no numbers")
    if (threads, gpus) != (1, number):
        raise ValueError(f"it ran on other GPUs than the {number} that it was to use")


def _judge_sizes(rows: t.Sequence[t.Mapping[str, t.Any]], largest: int, result: ToolResult) -> None:
    """Add the wrong values of each size, and the bandwidth at the largest.

    Raises:
        ValueError: if the largest size or a number is missing; its text is the reason.
    """
    missing = ""
    for row in rows:
        size = row["size"]
        if not json_data.is_whole(size):
            raise TypeError("no size")
        for place in PLACES:
            body = json_data.table(row.get(place))
            wrong, bandwidth = body.get("nwrong"), body.get("bus_bw")
            if not is_number(wrong):
                missing = missing or f"the values of {size} bytes were not checked"
            elif wrong:
                result.add_fault(f"{ALL_REDUCE}: {wrong:.0f} wrong values at {size} bytes")
            if not is_number(bandwidth):
                missing = missing or f"the bandwidth of {size} bytes is missing"
            elif size == largest and bandwidth:
                for uuid in result.gpus:
                    result.add_figure(FIGURE, bandwidth, uuid)
            elif size == largest and len(result.gpus) > 1:  # a single GPU uses no bus
                missing = missing or "its bandwidth is 0"
    if largest not in {row["size"] for row in rows}:
        missing = missing or f"it did not get to {largest} bytes"
    if missing:
        raise ValueError(missing)


def _judge_footer(document: t.Mapping[str, t.Any], result: ToolResult) -> None:
    """Check the last parts of the file, which are there only if the test has ended.

    The mean bandwidth counts only if NCCL_TESTS_MIN_BW is set, which this test does not do.

    Raises:
        ValueError: if they are missing.
    """
    bounds = json_data.table(document.get("out_of_bounds"))
    count, okay = bounds.get("count"), bounds.get("okay")
    if not is_number(count) or "end_time" not in document:
        raise ValueError("it did not end")
    if (count or okay != "true") and not result.faults:
        result.add_fault(f"{ALL_REDUCE}: {count:.0f} wrong values")
