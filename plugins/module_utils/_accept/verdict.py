# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The verdict on a GPU by its load test: figures, faults, and what could not be measured."""

from __future__ import annotations

import typing as t

from .._base.gpu import LoadReading
from .._base.text.shown import counted
from .answers import (
    BANDWIDTH,
    FLOAT,
    HOST,
    MEMORY,
    PEER,
    START,
    TENSOR,
    Answers,
    Outcome,
    PartName,
)
from .result import FAILED, INCOMPLETE, PASSED, QUICK, GpuResult
from .tools import nccl, nvbandwidth
from .tools.findings import ToolResult

TITLES: t.Mapping[str, str] = {
    START: "the driver's library",
    FLOAT: "float32 arithmetic",
    TENSOR: "tensor cores",
    MEMORY: "memory",
    BANDWIDTH: "memory bandwidth",
    HOST: "link to the host",
    PEER: "link to GPU",
}
GPU_PARTS = (FLOAT, TENSOR, MEMORY, BANDWIDTH)
# Figures as users have them, by the numbers of a part. Of links to several GPUs it is the slowest.
FIGURES: t.Mapping[t.Tuple[str, str], str] = {
    (FLOAT, "multiprocessors"): "multiprocessors",
    (FLOAT, "tflops"): "float32_tflops",
    (TENSOR, "tflops"): "tensor_tflops",
    (MEMORY, "bytes"): "memory_tested_bytes",
    (BANDWIDTH, "gb_per_s"): "memory_gb_per_s",
    (HOST, "to_device"): "host_to_device_gb_per_s",
    (HOST, "to_host"): "device_to_host_gb_per_s",
    (PEER, "gb_per_s"): "peer_gb_per_s",
}
# Figures of the tools of other vendors, which a test at level quick has not.
TOOL_FIGURES = (*nvbandwidth.HOST_FIGURES.values(), *nvbandwidth.PEER_FIGURES.values(), nccl.FIGURE)
# Figures of links between GPUs, which one that is tested alone can't have.
PEER_FIGURES = (FIGURES[PEER, "gb_per_s"], *nvbandwidth.PEER_FIGURES.values(), nccl.FIGURE)
LINK, SLOWDOWN, TEMPERATURE = "PCIe link", "slowdown", "temperature_celsius"
# What slows a GPU down and should not, by nvmlClocksEventReason constants. Its power limit is no fault.
SLOWDOWNS: t.Mapping[int, str] = {
    0x08: "slowed down by its hardware",
    0x20: "slowed down by the driver, as it is too hot",
    0x40: "slowed down by its hardware, as it is too hot",
    0x80: "slowed down by its power supply's brake",
}
NOT_TOLD = "the driver does not tell"


class ProcessAnswers(t.NamedTuple):
    """The answers of a process, and how it ended where that is a problem."""

    answers: Answers = Answers()
    problem: str = ""


class LoadOutcome(t.NamedTuple):
    """All that is known of a GPU after its load test.

    Attributes:
        own: The answers of the process that tests the GPU itself.
        links: Those of the process that measures the links of all GPUs.
        peers: The other GPUs among them.
        readings: What the GPU told meanwhile.
        faults: What its signs and the kernel's log say after the test.
        level: How much was to be tested.
        dcgm_level: The level of dcgmi diag, 0 if it was not to run.
        tools: The results of the tools by their names, at level standard.
    """

    own: ProcessAnswers = ProcessAnswers()
    links: ProcessAnswers = ProcessAnswers()
    peers: t.Tuple[str, ...] = ()
    readings: t.Tuple[LoadReading, ...] = ()
    faults: t.Tuple[str, ...] = ()
    level: str = QUICK
    dcgm_level: int = 0
    tools: t.Mapping[str, ToolResult] = {}


def is_usable(uuid: str, own: ProcessAnswers) -> bool:
    """Return whether a GPU did all of its own test without a fault.

    One that did not is left out of the test of links: a process that sees it may fail for the others, too.
    """
    result = GpuResult()
    for part in (START, *GPU_PARTS):
        _judge_part(own, PartName(part, uuid if part != START else ""), result)
    return not result.faults and not result.unmeasured


def accessible_pairs(links: ProcessAnswers) -> t.Tuple[t.Tuple[str, str], ...]:
    """Return the UUIDs of GPUs whose link was measured, from one to the other: they can access each other."""
    return tuple(
        (name.uuid, name.peer)
        for name, outcome in links.answers.outcomes.items()
        if name.part == PEER and "gb_per_s" in outcome.numbers
    )


def judge(uuid: str, outcome: LoadOutcome, floors: t.Mapping[str, float]) -> GpuResult:
    """Return the result of a GPU. It has passed if all parts were measured and nothing is a fault.

    Args:
        uuid: The GPU.
        outcome: What is known of it.
        floors: The least that figures may be.
    """
    result = GpuResult(
        faults=list(outcome.faults), level=outcome.level, dcgm_level=outcome.dcgm_level
    )
    own = [PartName(part, uuid) for part in GPU_PARTS]
    links = [PartName(HOST, uuid), *(PartName(PEER, uuid, peer) for peer in outcome.peers)]
    for process, names in ((outcome.own, own), (outcome.links, links)):
        for name in (PartName(START), *names):
            _judge_part(process, name, result)
    for tool, findings in outcome.tools.items():
        if findings.passed(uuid):
            result.tools[tool] = findings.version
        result.faults += findings.faults.get(uuid, [])
        result.figures.update(findings.figures.get(uuid, {}))
        result.unmeasured.update(findings.unmeasured.get(uuid, {}))
    is_complete = not result.unmeasured
    _judge_readings(outcome.readings, result)
    for findings in outcome.tools.values():
        result.unmeasured = {**findings.left_out, **result.unmeasured}
    for figure, floor in floors.items():
        value = result.figures.get(figure)
        if value is None and figure in PEER_FIGURES and not outcome.peers:
            result.unmeasured[figure] = "the GPU was tested alone"
        elif value is None:
            result.unmeasured[figure] = "there is no figure to compare with its floor"
            is_complete = False
        elif value < floor:
            result.faults.append(f"{figure} is {value:.4g}, less than its floor of {floor:g}")
    result.faults = list(dict.fromkeys(result.faults))
    result.verdict = FAILED if result.faults else PASSED if is_complete else INCOMPLETE
    return result


def _judge_part(process: ProcessAnswers, name: PartName, result: GpuResult) -> None:
    answers, title = process.answers, " ".join(filter(None, (TITLES[name.part], name.peer)))
    outcome, start = answers.outcomes.get(name), answers.outcomes.get(PartName(START), Outcome())
    if outcome is None:
        reason = process.problem or start.absent or "its process ended before"
        if name in answers.begun:
            result.faults.append(f"{title}: {reason}")
        else:
            result.unmeasured[title] = reason
    elif outcome.error:
        result.faults.append(f"{title}: {outcome.error}")
    elif outcome.absent and name.part == START:
        result.unmeasured[title] = outcome.absent
    else:
        _judge_numbers(name.part, title, outcome, result)


def _judge_numbers(part: str, title: str, outcome: Outcome, result: GpuResult) -> None:
    numbers = outcome.numbers
    for multiprocessor, count in outcome.wrong_words.items():
        rounds = counted(int(numbers["rounds"]), "round")
        result.faults.append(
            f"{title}: multiprocessor {multiprocessor} computed {counted(count, 'wrong word')} in {rounds}"
        )
    if numbers.get("wrong"):
        bits = f", bits {int(numbers['bits']):#x}" if "bits" in numbers else ""
        result.faults.append(f"{title}: {counted(int(numbers['wrong']), 'wrong word')}{bits}")
    if numbers.get("multiprocessors", 0) < numbers.get("expected", 0):
        ran, expected = (int(numbers[key]) for key in ("multiprocessors", "expected"))
        result.unmeasured[title] = f"it ran on {ran} of {expected} multiprocessors"
    for (owner, key), figure in FIGURES.items():
        if owner == part and key in numbers:
            result.figures[figure] = min(numbers[key], result.figures.get(figure, numbers[key]))


def _judge_readings(readings: t.Sequence[LoadReading], result: GpuResult) -> None:
    """Add what the GPU has told under load; what a GPU does not tell does not keep it from passing."""
    reasons = [reading.reasons for reading in readings if reading.reasons is not None]
    if not reasons:
        result.unmeasured[SLOWDOWN] = NOT_TOLD
    for bit, text in SLOWDOWNS.items():
        if any(mask & bit for mask in reasons):
            result.faults.append(text)
    temperatures = [reading.temperature for reading in readings if reading.temperature is not None]
    if temperatures:
        result.figures[TEMPERATURE] = max(temperatures)
    # A link is slower while there is nothing to do.
    links = [reading.link for reading in readings if reading.link]
    best = [reading.best_link for reading in readings if reading.best_link]
    if not links or not best:
        result.unmeasured[LINK] = NOT_TOLD
        return
    generation, width = max(link[0] for link in links), max(link[1] for link in links)
    able = max(best)
    if (generation, width) != able:
        result.faults.append(
            f"{LINK}: generation {generation} x{width} under load, of generation {able[0]} x{able[1]}"
        )
