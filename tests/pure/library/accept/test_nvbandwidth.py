# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which answers of nvbandwidth are a pass, a fault, or neither."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import (
    ToolResult,
    ToolRun,
    find_documents,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.nvbandwidth import (
    HOST_FIGURES,
    PEER_FIGURES,
    bandwidth_tests,
    parse_bandwidth,
)

from tests.fakes.accept.recorded import changed, load
from tests.support import hostile

RECORDED = load("nvbandwidth")
GPUS = ("GPU-0", "GPU-1")
PAIRS = tuple(itertools.permutations(GPUS, 2))
PASS, FAULT, UNMEASURED = "pass", "fault", "not measured"
READ = "device_to_device_memcpy_read_ce"
# What each recorded output is for all GPUs, and a text of the reason.
TABLE = {
    "pass": (PASS, ""),
    "pass_v0_7": (PASS, ""),
    "pass_v0_5": (PASS, ""),
    "one_gpu": (PASS, ""),
    "verbose": (PASS, ""),
    "warning": (PASS, ""),
    "waived": (UNMEASURED, "its status is Waived"),
    "throws": (FAULT, f"nvbandwidth: {READ}: it ended with status Error"),
    "throws_with_text": (FAULT, "copied data is wrong"),
    "unknown_test": (UNMEASURED, "its status is ERROR"),
    "ecc_error": (FAULT, "[CUDA_ERROR_ECC_UNCORRECTABLE]"),
    "corrupt_copy": (FAULT, "copied data is wrong"),
    "not_ready": (UNMEASURED, "system not yet initialized"),
    "old_driver": (UNMEASURED, "compiled with an unsupported toolchain"),
    "prefix": (UNMEASURED, "did not match any testcases"),
    "no_peer_access": (UNMEASURED, "a number is missing"),
    "zero": (UNMEASURED, "a number is missing"),
    "no_tests": (UNMEASURED, "it did not run"),
    "latency": (UNMEASURED, "it did not run"),
}
# What one change of a pass makes of it: the old and the new text, and the exit status.
CHANGES = {
    "failed": ("", "", 1, UNMEASURED, "it ended with status 1"),
    "signal": ("", "", -11, UNMEASURED, "it ended with signal 11"),
    "running": ('"Passed"', '"Running"', 0, UNMEASURED, "its status is Running"),
    "not_found": ('"Passed"', '"Not Found"', 0, UNMEASURED, "its status is Not Found"),
    "error": ('"Passed"', '"Error"', 0, FAULT, "it ended with status Error"),
    "no_value": ('"55.3833"', '"N/A"', 0, UNMEASURED, "a number is missing"),
    "number": ('"55.3833"', "55.3833", 0, UNMEASURED, "a number is missing"),
    "not_a_number": ('"55.3833"', '"-nan"', 0, UNMEASURED, "a number is missing"),
    "infinite": ('"55.3833"', '"inf"', 0, UNMEASURED, "a number is missing"),
    "negative": ('"55.3833"', '"-55.3833"', 0, UNMEASURED, "a number is missing"),
    "column_missing": ('"52.9036",', "", 0, UNMEASURED, "not those of 2 GPUs"),
    "column_more": ('"52.9036",', '"52.9036", "52.9",', 0, UNMEASURED, "not those of 2 GPUs"),
    "unit": ("(GB/s)", "(ns)", 0, UNMEASURED, "its numbers are not in GB/s"),
    "renamed": (READ, "device_to_device_read", 0, UNMEASURED, "it did not run"),
    "twice": (READ, "device_to_host_memcpy_ce", 0, UNMEASURED, "its status is Passed, Passed"),
    "other_gpus": ('"GPU Device list" :', '"GPU Device list" : [], "x" :', 0, UNMEASURED, "of 2"),
    "cut_off": ('"version" :', '"version" ', 0, UNMEASURED, "it ended with status 0"),
    "test_error": (
        '"name" : "device_to',
        '"error" : "lost", "name" : "device_to',
        0,
        FAULT,
        "lost",
    ),
}


def parse(run: ToolRun, gpus: int = 2) -> ToolResult:
    return parse_bandwidth(run, GPUS[:gpus], PAIRS if gpus > 1 else ())


def outcome(result: ToolResult) -> str:
    """Return what the result is, which is the worst of its GPUs."""
    if result.faults:
        return FAULT
    return PASS if all(map(result.passed, result.gpus)) else UNMEASURED


def texts(result: ToolResult) -> str:
    faults = [text for gpu in result.faults.values() for text in gpu]
    reasons = [
        f"{name}: {text}" for gpu in result.unmeasured.values() for name, text in gpu.items()
    ]
    return "\n".join([*faults, *reasons])


def test_each_recorded_output_is_in_the_table() -> None:
    assert set(TABLE) == set(RECORDED)


@pytest.mark.parametrize("name", TABLE)
def test_recorded_output(name: str) -> None:
    recorded, (expected, text) = RECORDED[name], TABLE[name]
    result = parse(recorded.run, recorded.gpus)
    assert outcome(result) == expected
    assert text in texts(result)
    assert f"nvbandwidth {result.version}" == recorded.writer


@pytest.mark.parametrize("name", CHANGES)
def test_output_with_one_change(name: str) -> None:
    old, new, status, expected, text = CHANGES[name]
    run = RECORDED["pass"].run
    result = parse(changed(run, old, new, status) if old else run._replace(status=status))
    assert outcome(result) == expected
    assert text in texts(result)


def test_figures_are_of_each_gpu() -> None:
    assert parse(RECORDED["pass"].run).figures == {
        "GPU-0": {
            "nvbandwidth_host_to_device_gb_per_s": 55.3112,
            "nvbandwidth_device_to_host_gb_per_s": 52.9036,
            "nvbandwidth_peer_read_gb_per_s": 365.712,
            "nvbandwidth_peer_write_gb_per_s": 365.712,
        },
        "GPU-1": {
            "nvbandwidth_host_to_device_gb_per_s": 55.3833,
            "nvbandwidth_device_to_host_gb_per_s": 53.0036,
            "nvbandwidth_peer_read_gb_per_s": 365.712,
            "nvbandwidth_peer_write_gb_per_s": 365.712,
        },
    }


def test_missing_number_is_of_its_gpu_alone() -> None:
    run = changed(RECORDED["pass"].run, '"55.3833"', '"N/A"')
    result = parse(run)
    assert [result.passed(uuid) for uuid in GPUS] == [True, False]


def test_gpus_without_access_to_each_other_need_no_numbers_of_peers() -> None:
    assert bandwidth_tests(()) == tuple(HOST_FIGURES)
    assert bandwidth_tests(PAIRS) == (*HOST_FIGURES, *PEER_FIGURES)
    run = RECORDED["no_peer_access"].run
    assert outcome(parse_bandwidth(run, GPUS, PAIRS[1:])) == PASS
    assert outcome(parse_bandwidth(run, GPUS, PAIRS[:1])) == UNMEASURED


def test_tool_that_did_not_run_is_not_measured() -> None:
    result = parse(ToolRun(None, problem="it had not ended after 60 seconds and was killed"))
    assert "was killed" in texts(result)


def test_version_without_json_is_not_measured() -> None:
    result = parse(
        ToolRun(1, "nvbandwidth Version: v0.4\nERROR: Invalid Arguments \n\n./nvbandwidth -j\n")
    )
    assert "it ended with status 1: ERROR: Invalid Arguments" in texts(result)


def test_hostile_output_is_never_a_pass_by_chance() -> None:
    samples = [RECORDED[name].run.output for name in ("pass", "throws", "corrupt_copy")]
    for text in hostile.inputs(samples, (*bandwidth_tests(PAIRS), "N/A", "Passed")):
        result = parse(ToolRun(0, text))
        assert all(len(line) < 1200 for line in texts(result).splitlines())
        if outcome(result) == PASS:
            (answer,) = (part["nvbandwidth"] for part in find_documents(text))
            passed = [case["name"] for case in answer["testcases"] if case["status"] == "Passed"]
            assert set(bandwidth_tests(PAIRS)) <= set(passed)
            assert "error" not in answer
