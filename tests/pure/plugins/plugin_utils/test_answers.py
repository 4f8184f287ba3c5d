# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An answer of a node has what its module documents, within bounds, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.plugin_utils.controller import answers
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import REPOSITORY

SHAPE: dict[str, Any] = {
    "path": {"type": "str", "returned": "success"},
    "gpus": {
        "type": "list",
        "elements": "dict",
        "returned": "success",
        "contains": {
            "uuid": {"type": "str"},
            "index": {"type": "int", "returned": "where it answers"},
        },
    },
    "driver": {"type": "dict", "returned": "where one is loaded"},
}
ANSWER: dict[str, Any] = {
    "changed": False,
    "path": "/a",
    "gpus": [{"uuid": "GPU-a", "index": None}],
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@pytest.mark.attack("controller-of-a-taken-node")
def test_only_documented_keys_are_kept() -> None:
    forged = {"ansible_facts": {"report_html_path": "/a"}, "ansible_host": "b", "add_host": {}}
    gpu = {"uuid": "GPU-a", "index": 1, "ansible_facts": {}}
    result = answers.check({**ANSWER, **forged, "gpus": [gpu]}, SHAPE)
    assert result.problem == ""
    assert result.answer == {**ANSWER, "gpus": [{"uuid": "GPU-a", "index": 1}]}
    assert result.dropped == tuple(forged)


@pytest.mark.attack("answer-of-a-taken-node")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"path": 1}, "path: expected str, got int"),
        ({"path": None}, "path: expected str, got NoneType"),
        ({"gpus": {}}, "gpus: expected list, got dict"),
        ({"gpus": [1]}, "gpus[]: expected dict, got int"),
        ({"gpus": [{}]}, "gpus[].uuid is missing"),
        ({"gpus": [{"uuid": "a", "index": True}]}, "gpus[].index: expected int, got bool"),
        ({"driver": "550"}, "driver: expected dict, got str"),
        ({"changed": "yes"}, "changed: expected bool, got str"),
    ],
)
def test_an_answer_of_another_shape_is_refused(change: dict[str, Any], problem: str) -> None:
    checked = answers.check({**ANSWER, **change}, SHAPE, whole=True)
    assert checked == answers.Checked({}, (), problem)


def test_a_whole_answer_has_all_but_of_a_failure() -> None:
    assert answers.check({"changed": False}, SHAPE, whole=True).problem == "path is missing"
    failure = {"failed": True, "msg": "no driver"}
    assert answers.check(failure, SHAPE, whole=True).answer == failure


def test_the_options_that_a_log_shows_stay_and_nothing_beside_them() -> None:
    options = {"module_args": {"path": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}}
    answer = {**ANSWER, "invocation": {**options, "ansible_facts": {}}}
    assert answers.check(answer, SHAPE).answer == {**ANSWER, "invocation": options}
    assert answers.check({**ANSWER, "invocation": "a"}, SHAPE).problem


def test_what_ansible_adds_about_a_file_goes_without_a_warning() -> None:
    of_a_file = {"uid": 0, "gid": 0, "owner": "root", "group": "root", "mode": "0644", "size": 1}
    checked = answers.check({**ANSWER, **of_a_file, "state": "file"}, SHAPE)
    assert checked == answers.Checked(ANSWER, (), "")
    others = {"gpus": SHAPE["gpus"]}
    assert answers.check({"gpus": [], **of_a_file}, others).dropped == tuple(of_a_file)


def test_what_is_null_or_missing_is_nothing() -> None:
    answer = {"changed": False, "path": None, "gpus": [{}]}
    assert answers.check(answer, SHAPE).answer == answer


@pytest.mark.attack("answer-of-a-taken-node")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("A" * (answers.MOST_CHARACTERS + 1), "characters"),
        ([""] * (answers.MOST_VALUES + 1), "values"),
        ([[""] * 400] * 400, "values"),
    ],
)
def test_no_answer_is_read_beyond_its_bounds(value: Any, problem: str) -> None:
    assert problem in answers.check({**ANSWER, "driver": {"a": value}}, SHAPE).problem


@pytest.mark.attack("answer-of-a-taken-node")
def test_no_answer_is_followed_deeper_than_a_bound() -> None:
    nested: Any = ""
    for _level in range(100_000):
        nested = [nested]
    assert "deep" in answers.check({**ANSWER, "driver": {"a": nested}}, SHAPE).problem


def test_messages_of_a_node_are_few() -> None:
    result = answers.check({**ANSWER, "warnings": ["A"] * 1000}, SHAPE)
    assert len(result.answer["warnings"]) == answers.MOST_WARNINGS


@given(st.dictionaries(st.sampled_from([*SHAPE, *answers.COMMON, "other"]), VALUES))
def test_whatever_a_node_answers_is_kept_as_documented_or_refused(answer: dict[str, Any]) -> None:
    result = answers.check(answer, SHAPE)
    assert result.answer.keys() <= {*SHAPE, *answers.COMMON, *answers.MESSAGES}
    if not result.problem:
        assert isinstance(result.answer.get("path", ""), (str, type(None)))


@pytest.mark.parametrize(
    "module", sorted(path.stem for path in (REPOSITORY / "plugins/modules").glob("*.py"))
)
def test_each_module_documents_types_that_are_known(module: str) -> None:
    def described(shape: answers.Shape) -> None:
        for value in shape.values():
            assert value["type"] in answers.TYPES
            described(value.get("contains", {}))

    described(answers.documented(module))
