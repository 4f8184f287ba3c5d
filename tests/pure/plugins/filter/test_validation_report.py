# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node whose answer has another shape fails in the files of all nodes, which can be read whatever it is."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.gpu.node.plugins.filter.validation_report import validation_report
from hypothesis import given
from hypothesis import strategies as st

PASSED = {"name": "driver", "state": "passed", "cause": "", "next_step": "", "holds": True}
GOOD = {"checks": [PASSED], "failed_checks": [], "summary": "ready", "seconds": 1.5}
POD = {"checks": [{**PASSED, "name": "pod"}]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(), of, max_size=3),
)
KEYS = ("checks", "summary", "seconds", "name", "state", "cause", "next_step", "pod", "pods")


def answers(key: str, value: Any) -> dict[str, Any]:
    """Return what a node has answered, with a value in the place of what is at a key."""
    found: Any = {**GOOD, "checks": [{**PASSED}]}
    tried: Any = {"checks": [{**POD["checks"][0]}]}
    if key == "pods":
        tried = value
    elif key == "pod":
        tried["checks"] = value
    else:
        (found if key in found else found["checks"][0])[key] = value
    return {"found": found, "tried": tried}


def files(*nodes: dict[str, Any]) -> tuple[dict[str, Any], ElementTree.Element]:
    """Return both files about nodes named by their numbers, the first as a browser reads JSON: without NaN."""
    known = {str(number): one for number, one in enumerate(nodes)}
    texts = [
        validation_report(list(known), known, "found", form, "tried") for form in ("json", "junit")
    ]

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    data = json.loads(texts[0], parse_constant=refused)
    return data["nodes"], ElementTree.fromstring(texts[1].encode())


def test_the_whole_answer_is_understood() -> None:
    nodes, suites = files(answers("name", "driver"))
    assert nodes["0"]["ready"] is True
    assert [one["name"] for one in nodes["0"]["checks"]] == ["driver", "pod"]
    assert suites.get("failures") == "0"


@pytest.mark.attack("answer-of-a-taken-node")
@given(st.sampled_from(KEYS), VALUES)
def test_a_wrong_shape_at_any_place_is_one_node(key: str, value: Any) -> None:
    good = {"found": GOOD, "tried": POD}
    nodes, suites = files(good, answers(key, value), good)
    assert [nodes[one]["ready"] for one in "02"] == [True, True]
    assert [one.get("failures") for one in suites][::2] == ["0", "0"]
    assert isinstance(nodes["1"]["summary"], str)
    assert isinstance(nodes["1"]["seconds"], float)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("checks", 7),
        ("checks", "driver"),
        ("checks", [None]),
        ("state", "fine"),
        ("state", ["passed"]),
        ("seconds", math.nan),
        ("seconds", "soon"),
        ("pod", {"a": "b"}),
    ],
)
def test_an_answer_that_was_not_understood_is_not_ready(key: str, value: Any) -> None:
    nodes, suites = files(answers(key, value))
    assert nodes["0"] == {
        "ready": False,
        "summary": "its answer was not understood",
        "seconds": 0.0,
        "checks": [],
    }
    (failure,) = suites.iter("failure")
    assert failure.get("message") == "its answer was not understood"
