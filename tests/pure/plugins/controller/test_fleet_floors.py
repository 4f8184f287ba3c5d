# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs of a fleet that are slower than others of their kind are named, and few that are not."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.fleet_floors import fleet_floors as as_filter
from ansible_collections.gpu.node.plugins.module_utils._accept.verdict import (
    FIGURES,
    PEER_FIGURES,
    TOOL_FIGURES,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.fleet_floors import (
    COMPARED,
    MeasuredGpu,
    compare,
    fleet_floors,
    measured_gpus,
    slow_gpus,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.accept import recorded

H100 = ("H100", "692-2G520", "580.159.04")
FLEETS, GPUS, NOISE, SLOW = 1000, 200, 0.01, 0.05
FIGURE = "memory_gb_per_s"
# What ``sb result diagnosis`` said of the first 20 fleets of each test below, a line of JSON each.
RECORDED = Path(recorded.__file__).with_name("superbench.jsonl")


def fleet(dice: random.Random, slow: int | None = None) -> list[MeasuredGpu]:
    """Return GPUs on nodes of eight, whose figures scatter; one is slow by as much as it would be fast."""
    values = [2900.0 * dice.gauss(1, NOISE) for _gpu in range(GPUS)]
    if slow is not None:
        values[slow] *= 1 - SLOW
    return [
        MeasuredGpu(f"node-{number // 8}", f"GPU-{number}", H100, {FIGURE: value})
        for number, value in enumerate(values)
    ]


def test_slow_gpu_is_named_in_99_percent_of_fleets() -> None:
    dice = random.Random(20261130)
    named = 0
    for _fleet in range(FLEETS):
        slow = dice.randrange(GPUS)
        named += f"GPU-{slow}" in {found.gpu.uuid for found in slow_gpus(fleet(dice, slow))}
    assert named >= 0.99 * FLEETS


def test_healthy_fleets_have_one_false_alarm_on_average_at_most() -> None:
    dice = random.Random(20261201)
    assert sum(len(slow_gpus(fleet(dice))) for _fleet in range(FLEETS)) <= FLEETS


def test_superbench_names_the_same_gpus() -> None:
    """The diagnosis of SuperBench 0.12 had the median as its baseline, and our floor as its criteria."""
    diagnoses = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
    dices = {"slow": random.Random(20261130), "healthy": random.Random(20261201)}
    for diagnosis in diagnoses:
        dice = dices[diagnosis["fleet"]]
        gpus = fleet(dice, dice.randrange(GPUS) if diagnosis["fleet"] == "slow" else None)
        (comparison,) = compare(gpus)
        assert comparison.median == pytest.approx(diagnosis["baseline"])
        cut = comparison.floor / comparison.median - 1
        assert cut == pytest.approx(float(diagnosis["criteria"].rpartition("<")[2]))
        named = {
            f"GPU-{8 * int(node.removeprefix('node-')) + int(rank)}"
            for node, details in diagnosis["named"].items()
            for rank in re.findall(rf"mem-bw/{FIGURE}:(\d+)\(", details)
        }
        assert {found.gpu.uuid for found in slow_gpus(gpus)} == named
    assert sum(bool(diagnosis["named"]) for diagnosis in diagnoses) > 20


def row(number: int, figures: Any, **changes: Any) -> dict[str, Any]:
    kind = {"product": "H100", "board": "692-2G520", "driver": "580.159.04"}
    return {"uuid": f"GPU-{number}", "verdict": "passed", "figures": figures, **kind, **changes}


def answers(
    *values: float, per_node: int = 2, figure: str = FIGURE, **changes: Any
) -> dict[str, list[dict[str, Any]]]:
    """Return the answers of nodes with so many GPUs each."""
    nodes: dict[str, list[dict[str, Any]]] = {}
    for number, value in enumerate(values):
        rows = nodes.setdefault(f"node-{number // per_node}", [])
        rows.append(row(number, {figure: value}, **changes))
    return nodes


def test_slow_gpu_is_named_with_the_median_and_the_number_of_its_kind() -> None:
    told = fleet_floors(answers(*[2900.0] * 9, 2700.0))
    assert told["slow"] == [
        "node-4: GPU GPU-9: memory_gb_per_s is 2700, 6.9 % below the median of 10 GPUs of its kind"
        " (2900)"
    ]
    floors = {FIGURE: pytest.approx(2900 * 0.975)}
    assert told["tests"] == {"node-4": [{"gpus": ["GPU-9"], "floors": floors}]}


@pytest.mark.parametrize("figure", COMPARED)
def test_each_figure_of_load_test_and_tools_is_compared(figure: str) -> None:
    nodes = answers(*[300.0] * 9, 200.0, figure=figure)
    assert f"GPU GPU-9: {figure} is 200, 33.3 % below" in fleet_floors(nodes)["slow"][0]


def test_all_figures_that_are_rates_are_compared() -> None:
    known = {*FIGURES.values(), *TOOL_FIGURES}
    assert {name for name in known if re.search("gb_per_s|tflops", name)} == set(COMPARED)


@pytest.mark.parametrize("figure", PEER_FIGURES)
def test_slow_links_are_tested_again_once_with_all_gpus_of_the_kind_on_their_node(
    figure: str,
) -> None:
    nodes = answers(*[300.0] * 12, *[200.0] * 4, per_node=4, figure=figure)
    nodes["node-3"].append(row(16, {figure: 1.0}, product="L4"))
    uuids = [f"GPU-{number}" for number in (12, 13, 14, 15)]
    told = fleet_floors(nodes)
    floors = {figure: pytest.approx(300 * 0.975)}
    assert told["tests"] == {"node-3": [{"gpus": uuids, "floors": floors}]}
    assert len(told["slow"]) == 4


def test_gpus_of_another_kind_are_not_compared() -> None:
    nodes = answers(*[2900.0] * 9)
    nodes["node-9"] = [row(9, {FIGURE: 300.0}, product="L4")]
    nodes["node-8"] = [row(8, {FIGURE: 2000.0}, driver="535.1")]
    assert fleet_floors(nodes) == {"slow": [], "tests": {}}


def test_fewer_than_eight_gpus_are_not_compared() -> None:
    assert fleet_floors(answers(*[2900.0] * 6, 1.0))["slow"] == []
    assert fleet_floors(answers(*[2900.0] * 7, 1.0))["slow"] != []


def test_single_node_can_not_make_others_slow() -> None:
    """One that is in others' hands may answer what it likes."""
    nodes = answers(*[2900.0] * 8, per_node=4)
    nodes["taken"] = [row(number, {FIGURE: 1e6}) for number in range(100, 120)]
    assert fleet_floors(nodes)["slow"] == []


def test_gpu_that_did_not_pass_is_not_compared() -> None:
    assert measured_gpus("node", [row(1, {FIGURE: 1.0}, verdict="failed")]) == []


@example(10**400)
@example(1e308)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_answer_of_another_shape_is_no_figure(value: Any) -> None:
    nodes = answers(*[2900.0] * 9)
    nodes["taken"] = [value, row(1, value), row(2, {FIGURE: value}), row(3, {}, uuid=value)]
    hostvars = {name: {"__accept_result": {"gpus": rows}} for name, rows in nodes.items()}
    hostvars["odd"] = {"__accept_result": value}
    told = as_filter(hostvars, list(hostvars))
    assert set(told["tests"]) <= {"taken"}


@given(st.lists(st.floats(1.0, 1e5), min_size=8, max_size=40))
def test_slow_gpus_are_a_minority(values: list[float]) -> None:
    gpus = [
        MeasuredGpu(f"node-{number}", f"GPU-{number}", H100, {COMPARED[0]: value})
        for number, value in enumerate(values)
    ]
    slow = slow_gpus(gpus)
    assert 2 * len(slow) < len(gpus)
    for gpu, comparison in slow:
        assert gpu.figures[COMPARED[0]] < comparison.floor < comparison.median
