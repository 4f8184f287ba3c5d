# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The acceptance of GPUs in a report, and their figures against the fleet's medians."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report
from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import NOT_UNDERSTOOD

from tests.support.browser import fleets

BOARD = "692-2G520-0200-000"
KIND = {"model": "NVIDIA H100", "board": BOARD, "driver": fleets.DRIVERS[0]}


def node(name: str, *values: float, **changes: Any) -> dict[str, Any]:
    """Return the answer of a node with so many GPUs that have passed, with these bandwidths of memory."""
    gpus = [fleets.gpu(at, f"{name}-{at}", "NVIDIA H100", 80, None) for at in range(len(values))]
    accepted = [
        fleets.judged(gpu["uuid"], **{"figures": {"memory_gb_per_s": value}, **changes})
        for gpu, value in zip(gpus, values, strict=True)
    ]
    return fleets.answer(gpus, accepted=tuple(accepted))


def report(nodes: dict[str, Any]) -> dict[str, Any]:
    known = {name: {"looked": answer} for name, answer in nodes.items()}
    made: dict[str, Any] = json.loads(fleet_report(list(nodes), known, "looked", form="json"))
    return made


def test_each_gpu_has_its_acceptance() -> None:
    answer = node("n", 2900.0)
    answer["gpu_info"]["gpus"].append(fleets.gpu(1, "GPU-new", "NVIDIA H100", 80, None))
    made = report({"n": answer, "bad": node("bad", 2900.0, faults=("memory: 1 wrong word",))})
    tested, new = (gpu["acceptance"] for gpu in made["nodes"][0]["gpus"])
    assert tested == {
        "state": "accepted",
        "reason": "",
        "verdict": "passed",
        "level": "quick",
        "board": BOARD,
        "driver": fleets.DRIVERS[0],
        "at": 1795320000,
        "faults": [],
        "figures": {"memory_gb_per_s": 2900.0},
    }
    assert (new["state"], new["at"], new["figures"]) == ("untested", 0, {})
    failed = made["nodes"][1]["gpus"][0]["acceptance"]
    assert (failed["state"], failed["faults"]) == ("failed", ["memory: 1 wrong word"])
    assert (made["totals"]["gpus_accepted"], made["totals"]["gpus_failed"]) == (1, 1)


def test_fleet_has_the_median_and_floor_of_each_figure_of_a_kind() -> None:
    nodes = {f"n{at}": node(f"n{at}", 2890.0, 2900.0, 2910.0) for at in range(3)}
    nodes["slow"] = node("slow", 2700.0, 1.0)
    nodes["failed"] = node("failed", 1.0, 1.0, verdict="failed")
    nodes["other"] = node("other", 300.0, 300.0)
    for gpu in nodes["other"]["gpu_info"]["gpus"]:
        gpu["name"] = "NVIDIA L4"
    (comparison,) = report(nodes)["acceptance"]
    assert comparison == {
        **KIND,
        "figure": "memory_gb_per_s",
        "gpus": 11,
        "median": 2900.0,
        "floor": 2827.5,
    }


def test_there_is_no_median_if_one_node_has_half_of_the_gpus() -> None:
    assert report({"a": node("a", *[2900.0] * 8), "b": node("b", *[1.0] * 8)})["acceptance"] == []


@pytest.mark.attack("answer-of-a-taken-node")
@pytest.mark.parametrize(
    "value", [float("inf"), float("nan"), 1e300, 10**400, -1.0, 0, True, "2900", None]
)
def test_number_that_no_gpu_has_is_no_figure(value: Any) -> None:
    nodes = {f"n{at}": node(f"n{at}", 2900.0, 2900.0, 2900.0) for at in range(3)}
    nodes["taken"] = node("taken", 2900.0)
    row = nodes["taken"]["status"]["acceptance"]["gpus"][0]
    row["figures"] = {"memory_gb_per_s": value, "of_no_test_of_ours": 1.0}
    made = report(nodes)
    assert made["nodes"][-1]["gpus"][0]["acceptance"]["figures"] == {}
    assert [(row["gpus"], row["median"]) for row in made["acceptance"]] == [(9, 2900.0)]


@pytest.mark.attack("answer-of-a-taken-node")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", "perfect"),
        ("at", -1),
        ("at", 10**18),
        ("at", "then"),
        ("faults", ["x"] * 33),
        ("figures", []),
        ("level", 7),
    ],
)
def test_acceptance_that_no_record_has_is_not_understood(key: str, value: Any) -> None:
    taken = node("taken", 2900.0)
    taken["status"]["acceptance"]["gpus"][0][key] = value
    made = report({"taken": taken, "good": node("good", 2900.0)})
    assert made["nodes"][0]["problem"] == NOT_UNDERSTOOD
    assert made["totals"]["gpus_accepted"] == 1
