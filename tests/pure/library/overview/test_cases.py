# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a report is told of the repairs of a node's GPUs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH as RECORD
from ansible_collections.gpu.node.plugins.module_utils._checks.report.cases import rows, upcoming
from ansible_collections.gpu.node.plugins.module_utils._checks.report.machine import overview
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    FAILED,
    PATH,
    RELEASED,
    STAGES,
    RepairCase,
    RepairCases,
    dump_cases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt

from tests.fakes.library.fakes import FakeHost

UUID = "GPU-a"
CASE = RepairCase(
    "1650",
    "0000:0f:00.0",
    Action.RESET,
    tuple(f"XID {one}" for one in range(20)),
    1795320000.0,
    attempts=(Attempt(Action.RESET, 1795320600.0),),
)
BARE = {"driver": None, "gpus": []}


@pytest.mark.parametrize("stage", [*STAGES, FAILED])
@pytest.mark.parametrize("verdict", Action)
def test_something_comes_next_for_each_gpu_until_it_is_given_back(
    stage: str, verdict: Action
) -> None:
    case = CASE._replace(stage=stage, verdict=verdict)
    assert bool(upcoming(case)) == (stage != RELEASED)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Action.RESET, "gpu.node.repair resets it"),
        (Action.RESET_ALL, "gpu.node.repair resets it"),
        (Action.DRAIN_THEN_RESET, "gpu.node.repair resets it"),
        (Action.REBOOT, "no reset can help: reboot the node"),
        (Action.ASK, "a person has to look"),
        (Action.REPLACE, "gpu.node.gpu_evidence with stage: rma"),
        (Action.RECOVER_FABRIC, "recover the fabric or IMEX domain"),
        (Action.NONE, "gpu.node.repair proves it and gives it back"),
    ],
)
def test_what_comes_next_is_what_the_verdict_asks_for(verdict: Action, words: str) -> None:
    assert words in upcoming(CASE._replace(stage=FAILED, verdict=verdict))
    assert "gives it back" in upcoming(CASE._replace(stage="proved", verdict=verdict))


def test_a_node_tells_its_cases_and_no_more_reasons_than_are_read() -> None:
    cases = RepairCases(None, {UUID: CASE, "GPU-b": CASE._replace(stage=RELEASED)})
    found = overview(FakeHost({PATH: dump_cases(cases)}), BARE)
    assert found["cases"] == rows(cases)
    assert [one["open"] for one in found["cases"]] == [True, False]
    first = found["cases"][0]
    assert len(first["reasons"]) == 8
    assert first["attempts"] == [{"action": "reset", "at": 1795320600, "result": ""}]
    assert found["cases_unknown"] == ""
    json.dumps(found)


def test_record_of_load_tests_that_is_damaged_is_reported() -> None:
    report = overview(FakeHost({RECORD: "{"}), BARE)["acceptance"]
    assert (report["faulty"], report["untested"], report["gpus"]) == ([], [], [])
    assert report["unknown"]
    assert overview(FakeHost({}), BARE)["acceptance"]["unknown"] == ""


def test_a_damaged_file_of_cases_is_said_and_no_error() -> None:
    found = overview(FakeHost({PATH: "{"}), BARE)
    assert found["cases"] == []
    assert f"{PATH} is damaged" in found["cases_unknown"]
    assert overview(FakeHost({}), BARE)["cases_unknown"] == ""
