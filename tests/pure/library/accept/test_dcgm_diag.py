# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which answers of dcgmi diag are a pass, a fault, or neither."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.dcgm import (
    ITERATIONS,
    ROOT,
    TESTS,
    DiagGpu,
    parse_diag,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import (
    ToolResult,
    ToolRun,
    find_documents,
)

from tests.fakes.accept.recorded import SERIALS, changed, load
from tests.support import hostile

RECORDED = load("dcgm")
GPUS = tuple(DiagGpu(f"GPU-{number}", number, SERIALS[number]) for number in (0, 1))
PASS, FAULT, UNMEASURED = "pass", "fault", "not measured"
# By GPU what each recorded output is, and a text of the reason.
TABLE = {
    "pass_level_2": (PASS, PASS, ""),
    "pass_level_3": (PASS, PASS, ""),
    "one_gpu": (PASS, "", ""),
    "no_serials": (PASS, PASS, ""),
    "plugins": (PASS, PASS, ""),
    "fail_memory": (PASS, FAULT, "memory: A memory mismatch was detected on GPU 1"),
    "isolate": (PASS, FAULT, "memory: Detected 1 volatile double-bit ECC error(s)"),
    "fail_bandwidth": (FAULT, PASS, "memory_bandwidth: Memory bandwidth of GPU 0"),
    "nccl_fail": (FAULT, FAULT, "nccl_tests: An NCCL error was detected"),
    "global_fail": (UNMEASURED, UNMEASURED, "a setting of the node: Found driver on the denylist"),
    "persistence_mode": (
        UNMEASURED,
        UNMEASURED,
        "a setting of the node: Persistence mode for GPU 1",
    ),
    "persistence_mode_and_memory": (FAULT, UNMEASURED, "memory: A memory mismatch was detected"),
    "error_in_a_pass": (PASS, UNMEASURED, "it passed with Couldn't allocate at least 75.0%"),
    "switch_fail": (FAULT, FAULT, "software of Switch 0: Detected fatal errors"),
    "warn": (UNMEASURED, UNMEASURED, "its status is Warn: Persistence mode"),
    "all_skip": (UNMEASURED, UNMEASURED, "it was skipped"),
    "skip_memory": (UNMEASURED, UNMEASURED, "it was skipped"),
    "not_run": (UNMEASURED, UNMEASURED, "it did not run"),
    "gpu_not_run": (PASS, UNMEASURED, "it did not run"),
    "no_tests": (UNMEASURED, UNMEASURED, "it ended with status 242"),
    "iterations": (UNMEASURED, "", "several iterations"),
    "iterations_fail": (UNMEASURED, "", "several iterations"),
    "runtime_error": (UNMEASURED, UNMEASURED, "The NVVS binary could not be launched"),
    "system_error": (UNMEASURED, UNMEASURED, "the GPUs are not supported"),
}
# What one change of a pass at level 2 makes of it: the old and the new text, and the exit status.
CHANGES = {
    "failed": ('"status" : "Pass"', '"status" : "Fail"', 226, FAULT, "it failed"),
    "failed_with_status_0": ('"status" : "Pass"', '"status" : "Fail"', 0, FAULT, "it failed"),
    "unknown_status": ('"Pass"', '"Passed"', 0, UNMEASURED, "its status is Passed"),
    "not_run": ('"Pass"', '"Not Run"', 0, UNMEASURED, "its status is Not Run"),
    "stopped": ("", "", 190, UNMEASURED, "status 190: the diagnostic was stopped"),
    "isolated_without_reason": ("", "", 205, UNMEASURED, "a GPU has to be isolated"),
    "old_root": ("DCGM Diagnostic", "DCGM GPU Diagnostic", 0, UNMEASURED, "install DCGM 4"),
    "other_root": ("DCGM Diagnostic", "Diagnostic", 0, UNMEASURED, "it ended with status 0"),
    "other_gpu": (SERIALS[1], "1652922000003", 0, UNMEASURED, "another serial number"),
    "other_index": ('"entity_id" : 1', '"entity_id" : 2', 0, PASS, ""),
    "missing_test": ('"pcie"', '"pci"', 0, UNMEASURED, "it did not run"),
    "display_name": ('"memory"', '"Memory"', 0, PASS, ""),
    "cut_off": ('"metadata"', "", 0, UNMEASURED, "it ended with status 0"),
    "text_for_a_number": ('"entity_id" : 0', '"entity_id" : "0"', 0, UNMEASURED, "understood"),
    "list_for_a_table": ('"test_summary" :', '"test_summary" : [], "x" :', 0, UNMEASURED, ""),
}


def parse(run: ToolRun, gpus: int = 2, level: int = 2) -> ToolResult:
    return parse_diag(run, GPUS[:gpus], level)


def outcomes(result: ToolResult) -> list[str]:
    """Return what the result is for each GPU."""
    return [
        PASS if result.passed(uuid) else FAULT if uuid in result.faults else UNMEASURED
        for uuid in result.gpus
    ]


def texts(result: ToolResult) -> str:
    faults = [text for gpu in result.faults.values() for text in gpu]
    return "\n".join(
        [*faults, *(text for gpu in result.unmeasured.values() for text in gpu.values())]
    )


def test_each_recorded_output_is_in_the_table() -> None:
    assert set(TABLE) == set(RECORDED)


@pytest.mark.parametrize("name", TABLE)
def test_recorded_output(name: str) -> None:
    recorded, (*expected, text) = RECORDED[name], TABLE[name]
    result = parse(recorded.run, recorded.gpus, recorded.level)
    assert outcomes(result) == list(filter(None, expected))
    assert text in texts(result)
    assert result.version == ("" if "iterations" in name else "4.6.0")


@pytest.mark.parametrize("name", CHANGES)
def test_output_with_one_change(name: str) -> None:
    old, new, status, expected, text = CHANGES[name]
    run = RECORDED["pass_level_2"].run
    run = changed(run, old, new, status) if old else run._replace(status=status)
    result = parse(run)
    assert set(outcomes(result)) == {expected}
    assert text in texts(result)


@pytest.mark.parametrize("test", TESTS[3])
def test_pass_needs_each_test_of_its_level(test: str) -> None:
    run = changed(RECORDED["pass_level_3"].run, f'"name" : "{test}"', '"name" : "other"')
    assert parse(run, level=3).unmeasured["GPU-0"] == {f"dcgmi diag: {test}": "it did not run"}


def test_level_2_is_no_level_3() -> None:
    assert outcomes(parse(RECORDED["pass_level_2"].run, level=3)) == [UNMEASURED] * 2


def test_skipped_test_with_further_needs_is_left_out() -> None:
    result = parse(RECORDED["pass_level_3"].run, level=3)
    assert set(result.left_out) == {"dcgmi diag: nvbandwidth", "dcgmi diag: nccl_tests"}


def test_skipped_test_says_why() -> None:
    note = '"info" : ["this GPU is not supported"], "status" : "Skip"'
    run = changed(RECORDED["skip_memory"].run, '"status" : "Skip"', note)
    assert parse(run).unmeasured["GPU-0"] == {"dcgmi diag: memory": "this GPU is not supported"}


def test_gpu_is_known_by_its_serial_number() -> None:
    """DCGM numbers GPUs as it likes if some are detached."""
    swapped = [DiagGpu("GPU-0", 0, SERIALS[1]), DiagGpu("GPU-1", 1, SERIALS[0])]
    result = parse_diag(RECORDED["fail_memory"].run, swapped, 2)
    assert list(result.faults) == ["GPU-0"]


def test_gpu_that_was_not_to_be_tested_is_no_pass() -> None:
    run = changed(RECORDED["no_serials"].run, '"entity_id" : 1', '"entity_id" : 7')
    result = parse(run)
    assert outcomes(result) == [UNMEASURED] * 2
    assert "it tested GPU 7, which it was not asked for" in texts(result)


def test_diagnostic_that_was_stopped_is_no_pass_of_any_gpu() -> None:
    result = parse(RECORDED["fail_memory"].run._replace(status=190))
    assert outcomes(result) == [UNMEASURED, FAULT]


def test_lines_around_the_answer_are_no_part_of_it() -> None:
    run = RECORDED["pass_level_2"].run
    noisy = run._replace(output=f"Warning: {{no JSON}}\n{{\nnone\n{run.output}\n[nvml] {{done}}\n")
    assert outcomes(parse(noisy)) == [PASS, PASS]
    twice = run._replace(output=run.output * 2)
    assert outcomes(parse(twice)) == [UNMEASURED] * 2


def test_tool_that_did_not_run_is_not_measured() -> None:
    result = parse(ToolRun(None, problem="it had not ended after 60 seconds and was killed"))
    assert result.unmeasured["GPU-0"]["dcgmi diag"].endswith("was killed")


def test_hostile_output_is_never_a_pass_by_chance() -> None:
    samples = [RECORDED[name].run.output for name in ("pass_level_2", "fail_memory", "all_skip")]
    required = {*TESTS[2]}
    for text in hostile.inputs(samples, (ROOT, ITERATIONS, "Pass", "entity_id")):
        result = parse(ToolRun(0, text))
        lines = texts(result).splitlines()
        assert all(len(line) < 700 for line in lines)
        if outcomes(result) == [PASS, PASS]:
            (data,) = (part for part in find_documents(text) if ROOT in part)
            tests = [test for part in data[ROOT]["test_categories"] for test in part["tests"]]
            assert required <= {test["name"].lower() for test in tests}
            assert not any(row["status"] == "Fail" for test in tests for row in test["results"])
