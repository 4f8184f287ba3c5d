# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The verdict on a GPU by the answers of its load test."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.answers import (
    NUMBERS,
    Answers,
    parse_answers,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.result import GpuResult
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import ToolResult
from ansible_collections.gpu.node.plugins.module_utils._accept.verdict import (
    FIGURES,
    TOOL_FIGURES,
    LoadOutcome,
    ProcessAnswers,
    accessible_pairs,
    is_usable,
    judge,
)
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import LoadReading
from hypothesis import given
from hypothesis import strategies as st

from tests.support import hostile

UUID, PEER = "GPU-1", "GPU-2"
COMPUTED = {
    "multiprocessors": 132,
    "expected": 132,
    "rounds": 90,
    "wrong_words": {},
    "tflops": 40.0,
}
OWN: tuple[dict[str, Any], ...] = (
    {"part": "start", "uuid": ""},
    {"part": "float", "uuid": UUID, **COMPUTED},
    {"part": "tensor", "uuid": UUID, **COMPUTED},
    {"part": "memory", "uuid": UUID, "bytes": 80e9, "wrong": 0, "bits": 0},
    {"part": "bandwidth", "uuid": UUID, "gb_per_s": 2900.0},
)
LINKS: tuple[dict[str, Any], ...] = (
    {"part": "start", "uuid": ""},
    {"part": "host", "uuid": UUID, "to_device": 55.0, "to_host": 54.0, "wrong": 0},
    {"part": "peer", "uuid": UUID, "peer": PEER, "gb_per_s": 380.0, "wrong": 0},
)
READING = LoadReading(0x4, (5, 16), (5, 16), 61)  # at its power limit, which is no fault


def answers(parts: tuple[dict[str, Any], ...], **changes: dict[str, Any] | None) -> Answers:
    """Return parsed answers, with what is changed of a part; of None it has begun and not ended."""
    lines: list[dict[str, Any]] = []
    for part in parts:
        key = {name: part.get(name, "") for name in ("part", "uuid", "peer")}
        change = changes.get(part["part"], {})
        lines.append({**key, "begun": True})
        lines += [] if change is None else [{**key, **change} if change else part]
    return parse_answers("\n".join(map(json.dumps, lines)))


def outcome(own: dict[str, Any], problem: str = "", **changes: Any) -> LoadOutcome:
    """Return what is known of a GPU whose answers are changed."""
    usual = LoadOutcome(
        ProcessAnswers(answers(OWN, **own), problem),
        ProcessAnswers(answers(LINKS, **own), problem),
        (PEER,),
        (READING,),
    )
    return usual._replace(**changes)


def verdict(
    own: dict[str, Any], floors: dict[str, float] | None = None, **changes: Any
) -> GpuResult:
    return judge(UUID, outcome(own, **changes), floors or {})


def test_gpu_with_all_measured_and_no_fault_passes() -> None:
    result = verdict({}, {"memory_gb_per_s": 2900.0})
    assert (result.verdict, result.faults, result.unmeasured) == ("passed", [], {})
    assert result.figures == {
        "multiprocessors": 132,
        "float32_tflops": 40.0,
        "tensor_tflops": 40.0,
        "memory_tested_bytes": 80e9,
        "memory_gb_per_s": 2900.0,
        "host_to_device_gb_per_s": 55.0,
        "device_to_host_gb_per_s": 54.0,
        "peer_gb_per_s": 380.0,
        "temperature_celsius": 61,
    }
    assert set(FIGURES.values()) < set(result.figures)


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        (
            {"float": {**COMPUTED, "wrong_words": {"17": 3}}},
            "float32 arithmetic: multiprocessor 17 computed 3 wrong words in 90 rounds",
        ),
        (
            {"memory": {"bytes": 8e10, "wrong": 1, "bits": 128}},
            "memory: 1 wrong word, bits 0x80",
        ),
        ({"host": {"to_device": 50, "to_host": 50, "wrong": 2}}, "link to the host: 2 wrong words"),
        ({"peer": {"gb_per_s": 300, "wrong": 9}}, "link to GPU GPU-2: 9 wrong words"),
        ({"tensor": {"error": "CUDA_ERROR_UNKNOWN"}}, "tensor cores: CUDA_ERROR_UNKNOWN"),
        ({"start": {"error": "no device"}}, "the driver's library: no device"),
        ({"memory": None}, "memory: its process ended before"),
    ],
)
def test_fault_of_a_part_fails_the_gpu(own: dict[str, Any], fault: str) -> None:
    result = verdict(own)
    assert (result.verdict, result.faults) == ("failed", [fault])


@pytest.mark.parametrize(
    ("own", "name", "reason"),
    [
        ({"start": {"absent": "libcuda.so.1 is missing"}}, "the driver's library", "libcuda.so.1"),
        ({"float": {**COMPUTED, "multiprocessors": 131}}, "float32 arithmetic", "131 of 132"),
        ({"float": {**COMPUTED, "tflops": "many"}}, "float32 arithmetic", ""),
        ({"float": {**COMPUTED, "tflops": float("nan")}}, "float32 arithmetic", ""),
    ],
)
def test_what_was_not_measured_is_no_pass(own: dict[str, Any], name: str, reason: str) -> None:
    result = verdict(own)
    assert result.verdict != "passed"
    assert reason in result.unmeasured.get(name, "") or result.faults


def test_process_that_never_ran_is_incomplete() -> None:
    problem = "it ended with status 1: ModuleNotFoundError"
    result = judge(UUID, LoadOutcome(ProcessAnswers(problem=problem), ProcessAnswers()), {})
    assert (result.verdict, result.faults) == ("incomplete", [])
    assert result.unmeasured["memory"] == problem


def test_part_that_hangs_names_how_its_process_ended() -> None:
    hung = {"memory": None}
    result = verdict(hung, problem="it had not ended after 50 seconds and was killed")
    assert result.faults == ["memory: it had not ended after 50 seconds and was killed"]


def test_kind_of_unit_that_a_gpu_lacks_is_no_fault() -> None:
    lacking = {"absent": "compute capability 7.5 has no such tensor cores"}
    result = verdict({"tensor": lacking, "peer": {"absent": "the GPUs can't access each other"}})
    assert result.verdict == "passed"
    assert not {"tensor_tflops", "peer_gb_per_s"} & set(result.figures)


@pytest.mark.parametrize(
    ("readings", "fault"),
    [
        ([READING._replace(reasons=0x40)], "slowed down by its hardware, as it is too hot"),
        ([READING, READING._replace(reasons=0x80)], "slowed down by its power supply's brake"),
        ([READING._replace(link=(5, 8))], "PCIe link: generation 5 x8 under load"),
        ([READING._replace(link=(4, 16))], "PCIe link: generation 4 x16 under load"),
    ],
)
def test_reading_under_load_that_is_a_fault(readings: list[LoadReading], fault: str) -> None:
    result = verdict({}, readings=tuple(readings))
    assert result.verdict == "failed"
    assert result.faults[0].startswith(fault)


def test_idle_link_is_slower_without_a_fault() -> None:
    assert verdict({}, readings=(READING._replace(link=(1, 16)), READING)).verdict == "passed"


def test_gpu_that_tells_nothing_of_its_link_passes_and_says_so() -> None:
    result = verdict({}, readings=(LoadReading(),))
    assert result.verdict == "passed"
    assert set(result.unmeasured) == {"PCIe link", "slowdown"}


def test_signs_of_faults_after_the_test_fail_it() -> None:
    assert verdict({}, faults=("XID 48",)).faults == ["XID 48"]


@given(st.sampled_from(sorted(set(FIGURES.values()))), st.floats(0.1, 10))
def test_figure_is_held_to_its_floor(name: str, factor: float) -> None:
    figure = verdict({}).figures[name]
    passes = figure >= figure * factor
    result = verdict({}, {name: figure * factor})
    assert (result.verdict == "passed") == passes
    assert bool(result.faults) != passes


def test_gpu_that_is_tested_alone_needs_no_figure_of_links_to_others() -> None:
    alone = outcome({}, peers=())
    alone = alone._replace(links=ProcessAnswers(answers(LINKS[:2])))
    result = judge(UUID, alone, {"peer_gb_per_s": 300.0})
    assert (result.verdict, result.faults) == ("passed", [])
    assert result.unmeasured["peer_gb_per_s"] == "the GPU was tested alone"


def test_floor_of_a_figure_that_is_missing_is_no_pass() -> None:
    result = verdict({"peer": {"absent": "no link"}}, {"peer_gb_per_s": 1.0})
    assert result.verdict == "incomplete"


def tool(**changes: Any) -> ToolResult:
    return dataclasses.replace(ToolResult("a tool", (UUID, PEER), "1.0"), **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "passed"),
        ({"faults": {UUID: ["a tool: it failed"]}}, "failed"),
        ({"faults": {PEER: ["a tool: it failed"]}}, "passed"),
        ({"unmeasured": {UUID: {"a tool": "it did not run"}}}, "incomplete"),
        ({"unmeasured": {PEER: {"a tool": "it did not run"}}}, "passed"),
        ({"left_out": {"a tool: a test": "it was skipped"}}, "passed"),
    ],
)
def test_pass_needs_each_tool_to_pass_the_gpu(changes: dict[str, Any], expected: str) -> None:
    tools = {"nvbandwidth": tool(), "dcgmi": tool(**changes)}
    result = verdict({}, level="standard", dcgm_level=2, tools=tools)
    assert result.verdict == expected
    assert (result.level, result.dcgm_level) == ("standard", 2)
    assert result.tools == {
        "nvbandwidth": "1.0",
        **({"dcgmi": "1.0"} if expected == "passed" else {}),
    }
    assert bool(result.unmeasured) == (expected == "incomplete" or "left_out" in changes)


def test_figure_of_a_tool_is_held_to_its_floor() -> None:
    tools = {"all_reduce_perf": tool(figures={UUID: {TOOL_FIGURES[0]: 5.0}})}
    assert verdict({}, {TOOL_FIGURES[0]: 5.0}, tools=tools).verdict == "passed"
    assert verdict({}, {TOOL_FIGURES[0]: 6.0}, tools=tools).verdict == "failed"
    assert verdict({}, {TOOL_FIGURES[1]: 5.0}, tools=tools).verdict == "incomplete"


def test_gpus_with_a_measured_link_can_access_each_other() -> None:
    assert accessible_pairs(outcome({}).links) == ((UUID, PEER),)
    assert accessible_pairs(outcome({"peer": {"absent": "no access"}}).links) == ()
    assert accessible_pairs(outcome({"peer": {"error": "lost"}}).links) == ()


def test_only_a_gpu_that_did_all_of_its_own_test_has_its_links_measured() -> None:
    assert is_usable(UUID, outcome({}).own)
    assert not is_usable(UUID, outcome({"memory": None}).own)
    assert not is_usable(UUID, outcome({"tensor": {"error": "lost"}}).own)
    assert not is_usable(PEER, outcome({}).own)


def test_whatever_a_process_prints_is_read_within_bounds() -> None:
    samples = ["\n".join(map(json.dumps, parts)) for parts in (OWN, LINKS)]
    for text in hostile.inputs(samples, tuple(NUMBERS)):
        result = judge(UUID, LoadOutcome(ProcessAnswers(parse_answers(text)), ProcessAnswers()), {})
        assert result.verdict != "passed"
        assert all(len(line) < 700 for line in (*result.faults, *result.unmeasured.values()))


@given(st.lists(st.sampled_from([*map(json.dumps, OWN), *map(json.dumps, LINKS)]), max_size=6))
def test_only_all_parts_are_a_pass(lines: list[str]) -> None:
    process = ProcessAnswers(parse_answers("\n".join(lines)))
    parts = {(part["part"], part.get("peer", "")) for part in map(json.loads, lines)}
    every = {(part["part"], part.get("peer", "")) for part in (*OWN, *LINKS)}
    result = judge(UUID, LoadOutcome(process, process, (PEER,), (READING,)), {})
    assert (result.verdict == "passed") == (parts == every)
