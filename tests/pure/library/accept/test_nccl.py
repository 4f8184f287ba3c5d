# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which answers of all_reduce_perf are a pass, a fault, or neither, and that nothing secret of them is kept."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import (
    ToolResult,
    ToolRun,
    find_documents,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.nccl import (
    FIGURE,
    parse_all_reduce,
)

from tests.fakes.accept.recorded import LARGEST, SECRET, changed, load
from tests.support import hostile

RECORDED = load("nccl")
GPUS = ("GPU-0", "GPU-1")
PASS, FAULT, UNMEASURED = "pass", "fault", "not measured"
# What each recorded output is for all GPUs, and a text of the reason.
TABLE = {
    "pass": (PASS, ""),
    "pass_v2": (PASS, ""),
    "pass_v1": (PASS, ""),
    "one_gpu": (PASS, ""),
    "per_iteration": (PASS, ""),
    "bandwidth_checked": (PASS, ""),
    "last_error": (PASS, ""),
    "below_minimum": (UNMEASURED, "it ended with status 7"),
    "wrong_values": (FAULT, "12 wrong values at 33554432 bytes"),
    "wrong_values_v1": (FAULT, "12 wrong values at 33554432 bytes"),
    "values_unchecked": (UNMEASURED, "the values of 8388608 bytes were not checked"),
    "dies": (FAULT, "an illegal memory access was encountered"),
    "timeout": (UNMEASURED, "it ended with status 4: it timed out"),
    "killed": (UNMEASURED, "it ended with status 137"),
    "init_failed": (UNMEASURED, "it ended with status 3: NCCL failed"),
    "not_ready": (UNMEASURED, "system not yet initialized"),
    "too_few_gpus": (UNMEASURED, "there are too few GPUs"),
}
LAST = "319.650000,"
# What one change of a pass makes of it: the old and the new text, and the exit status.
CHANGES = {
    "killed": ("", "", -9, UNMEASURED, "it ended with signal 9"),
    "failed": ("", "", 1, UNMEASURED, "an internal error"),
    "form": ('"version":3', '"version":4', 0, UNMEASURED, "a form that is not known"),
    "form_of_text": ('"version":3', '"version":"3"', 0, UNMEASURED, "a form that is not known"),
    "form_of_truth": ('"version":3', '"version":true', 0, UNMEASURED, "a form that is not known"),
    "no_end": ('"end_time"', '"time"', 0, UNMEASURED, "it did not end"),
    "no_footer": ('"out_of_bounds"', '"bounds"', 0, UNMEASURED, "it did not end"),
    "not_okay": ('"okay":"true"', '"okay":"false"', 0, FAULT, "0 wrong values"),
    "bounds": ('"count":0,"okay"', '"count":3,"okay"', 0, FAULT, "3 wrong values"),
    "wrong": ('"nwrong":0.000000', '"nwrong":1.000000', 0, FAULT, "1 wrong values"),
    "not_checked": ('"nwrong":0.000000', '"nwrong":null', 0, UNMEASURED, "were not checked"),
    "nwrong_text": ('"nwrong":0.000000', '"nwrong":"nan"', 0, UNMEASURED, "were not checked"),
    "no_bandwidth": (f'"bus_bw":{LAST}', '"bus_bw":"nan",', 0, UNMEASURED, "is missing"),
    "infinite": (f'"bus_bw":{LAST}', '"bus_bw":inf,', 0, UNMEASURED, "its file is cut off"),
    "zero": (f'"bus_bw":{LAST}', '"bus_bw":0.000000,', 0, UNMEASURED, "its bandwidth is 0"),
    "null": ('"in_place":{', '"in_place":null,"x":{', 0, UNMEASURED, "were not checked"),
    "small": ('"size":33554432', '"size":3355443', 0, UNMEASURED, "did not get to 33554432"),
    "one_gpu": ('"ngpus":2', '"ngpus":1', 0, UNMEASURED, "other GPUs than the 2"),
    "threads": ('"nthreads":1', '"nthreads":2', 0, UNMEASURED, "other GPUs than the 2"),
    "no_results": ('"results":', '"rows":', 0, UNMEASURED, "not understood"),
}
USAGE = "invalid option -- 'J'\nUSAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n"


def parse(run: ToolRun, gpus: int = 2) -> ToolResult:
    return parse_all_reduce(run, GPUS[:gpus], LARGEST)


def outcome(result: ToolResult) -> str:
    """Return what the result is, which is the same for all GPUs."""
    if result.faults:
        assert set(result.faults) == set(result.gpus)
        return FAULT
    (passed,) = {result.passed(uuid) for uuid in result.gpus}
    return PASS if passed else UNMEASURED


def texts(result: ToolResult) -> str:
    faults = [text for gpu in result.faults.values() for text in gpu]
    reasons = [text for gpu in result.unmeasured.values() for text in gpu.values()]
    return "\n".join([*faults, *reasons])


def test_each_recorded_output_is_in_the_table() -> None:
    assert set(TABLE) == set(RECORDED)


@pytest.mark.parametrize("name", TABLE)
def test_recorded_output(name: str) -> None:
    recorded, (expected, text) = RECORDED[name], TABLE[name]
    assert SECRET in recorded.run.document
    result = parse(recorded.run, recorded.gpus)
    assert outcome(result) == expected
    assert text in texts(result)


@pytest.mark.parametrize("name", CHANGES)
def test_output_with_one_change(name: str) -> None:
    old, new, status, expected, text = CHANGES[name]
    run = RECORDED["pass"].run
    result = parse(changed(run, old, new, status) if old else run._replace(status=status))
    assert outcome(result) == expected
    assert text in texts(result)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (ToolRun(0, USAGE), "install nccl-tests 2.17.3 or later"),
        (ToolRun(0, "# skipping json output; nccl.json not accessible\n"), "it wrote no file"),
        (ToolRun(0, RECORDED["pass"].run.output), "it wrote no file"),
        (ToolRun(None, problem="it is not installed"), "it is not installed"),
        (ToolRun(127, "error while loading shared libraries: libnccl.so.2"), "libnccl.so.2"),
    ],
)
def test_run_without_a_file_is_not_measured(run: ToolRun, text: str) -> None:
    result = parse(run)
    assert outcome(result) == UNMEASURED
    assert text in texts(result)


def test_figure_is_the_bus_bandwidth_at_the_largest_size() -> None:
    """The mean of all sizes, which the footer has, is lower."""
    result = parse(RECORDED["pass"].run)
    assert result.figures == {uuid: {FIGURE: 318.4} for uuid in GPUS}


def test_single_gpu_has_no_bandwidth_of_a_bus() -> None:
    assert parse(RECORDED["one_gpu"].run, 1).figures == {}


@pytest.mark.parametrize(
    ("name", "version"), [("pass", "2.19.6"), ("pass_v2", "2.19.2"), ("pass_v1", "NCCL 2.27.3")]
)
def test_version_is_that_of_the_tests_or_of_nccl(name: str, version: str) -> None:
    assert parse(RECORDED[name].run).version == version


def test_environment_and_arguments_of_the_tool_are_dropped() -> None:
    for recorded in RECORDED.values():
        assert SECRET not in repr(parse(recorded.run, recorded.gpus))
    for old in ('"env":[', '"version":3', '"results":', '"okay":', '"nwrong":'):
        run = changed(RECORDED["pass"].run, old, f'{old}"{SECRET}",')
        assert SECRET not in repr(parse(run))


def test_hostile_file_is_never_a_pass_by_chance_and_tells_nothing_secret() -> None:
    samples = [RECORDED[name].run.document for name in ("pass", "wrong_values", "dies")]
    for text in hostile.inputs(samples, ("nwrong", "bus_bw", "end_time", "null")):
        result = parse(ToolRun(0, "", text))
        assert SECRET not in repr(result)
        assert all(len(line) < 700 for line in texts(result).splitlines())
        if outcome(result) == PASS:
            (data,) = find_documents(text)
            rows = [row[place] for row in data["results"] for place in ("out_of_place", "in_place")]
            assert not any(row["nwrong"] for row in rows)
            assert data["out_of_bounds"]["count"] == 0
