# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node whose answer has another shape is one row of a report, whatever it is; all others are as they were."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report
from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import NOT_UNDERSTOOD
from hypothesis import given
from hypothesis import strategies as st

from tests.support.browser import wrong

GOOD = wrong.whole()
PLACES = list(wrong.places(GOOD))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(3_000_000)
VALUES = st.recursive(
    LEAVES, lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(), of, max_size=3)
)


def report(answers: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a report, read by the rules that a browser has: no NaN."""
    known = {name: {"looked": one, "info": one} for name, one in answers.items()}
    text = fleet_report(list(answers), known, "looked", "info", form="json", made="then")
    assert not re.search(r"\b(NaN|Infinity)\b", re.sub(r'"(\\.|[^"\\])*"', "", text))
    found: dict[str, Any] = json.loads(text)
    return found


ALONE = report({"n": GOOD})["nodes"][0]


def test_the_whole_answer_is_understood() -> None:
    assert ALONE["state"] == "looked"
    filled = ("gpus", "drift", "faults", "unhealthy", "reboot", "change", "labels", "other_users")
    filled += ("cases",)
    assert all(ALONE[key] for key in filled)


@pytest.mark.attack("answer-of-a-taken-node")
@given(st.sampled_from(PLACES), VALUES)
def test_a_wrong_shape_at_any_place_is_one_row(place: wrong.Place, value: Any) -> None:
    found = report({"a": GOOD, "bad": wrong.changed(GOOD, place, value), "z": GOOD})
    first, bad, last = found["nodes"]
    assert first == {**ALONE, "name": "a"}
    assert last == {**ALONE, "name": "z"}
    assert bad["name"] == "bad"
    assert bad.keys() == ALONE.keys()
    assert wrong.shape(bad) <= wrong.shape(ALONE) | wrong.MAYBE
    assert found["totals"]["nodes"] == 3


@pytest.mark.attack("answer-of-a-taken-node")
@given(st.sampled_from(PLACES))
def test_what_is_missing_at_any_place_is_one_row(place: wrong.Place) -> None:
    bad = report({"bad": wrong.without(GOOD, place)})["nodes"][0]
    assert wrong.shape(bad) <= wrong.shape(ALONE) | wrong.MAYBE


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("gpu_info", "gpus", 0, "uuid"), None),
        (("gpu_info", "gpus", 1, "gpu_instances", 0, "profile"), None),
        (("gpu_info", "gpus", 1, "gpu_instances", 0, "start"), 3_000_000),
        (("gpu_info", "gpus", 1, "gpu_instances", 0, "size"), -1),
        (("gpu_info", "gpus", 1, "mig_profiles", 0, "placements", 0), [3_000_000, 1]),
        (("status", "labels", "labels"), ["a"]),
        (("status", "faults"), 7),
        (("parts",), None),
    ],
)
def test_an_answer_that_was_not_understood_says_so(place: wrong.Place, value: Any) -> None:
    found = report({"bad": wrong.changed(GOOD, place, value)})
    (bad,) = found["nodes"]
    assert (bad["state"], bad["problem"], bad["gpus"]) == ("failed", NOT_UNDERSTOOD, [])
    assert found["totals"]["failed"] == 1
