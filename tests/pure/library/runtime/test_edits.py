# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An edit is taken back without a trace, and what others did meanwhile stays."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import tomlkit
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime import edits, json_text
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml
from hypothesis import assume, given
from hypothesis import strategies as st

KEYS = st.text('ab"é. ', min_size=1, max_size=3)
LEAVES = st.booleans() | st.integers(-9, 9) | st.text('xy"\\ #}', max_size=4)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3) | st.lists(st.sampled_from("uvw"), max_size=3)
    ),
    max_leaves=8,
)
CONFIGS = st.dictionaries(KEYS, VALUES, max_size=4)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
SETTINGS = LEAVES | st.lists(st.sampled_from("uvw"), min_size=1, max_size=3)


def fits(config: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Return whether a key can be set without replacing a table or going through a value."""
    value: Any = config
    for key in path:
        if not isinstance(value, dict):
            return False
        if key not in value:
            return True
        value = value[key]
    return not isinstance(value, dict)


@st.composite
def cases(draw: Any) -> tuple[dict[str, Any], list[tuple[tuple[str, ...], Any]]]:
    """Draw a configuration and changes of it that do not get in each other's way."""
    config = draw(CONFIGS)
    after, changes = copy.deepcopy(config), []
    for path in draw(st.lists(PATHS, min_size=1, max_size=3, unique=True)):
        if fits(after, path):
            change = (path, draw(SETTINGS))
            after = edits.apply(after, [change], [])
            changes.append(change)
    assume(changes)
    return config, changes


@given(cases())
def test_what_was_set_is_taken_back(case: Any) -> None:
    config, changes = case
    entries = edits.note(config, changes, [])
    stored = json.loads(json.dumps(entries))
    after = edits.apply(config, changes, [])
    back = edits.revert(after, [edits.Entry.of(one) for one in stored])
    assert edits.apply(after, *back) == config
    assert edits.revert(config, [one for one in entries if one.had != (one.value,)]) == ([], [])


@given(cases())
def test_others_keys_stay(case: Any) -> None:
    config, changes = case
    after = edits.apply(config, changes, [])
    theirs = edits.apply(after, [((*changes[0][0][:-1], "theirs"), 1)], [])
    rest = edits.apply(theirs, *edits.revert(theirs, edits.note(config, changes, [])))
    assert edits.find(rest, (*changes[0][0][:-1], "theirs"))[0] == (1,)


def test_value_that_another_has_set_stays() -> None:
    entries = edits.note({"a": 1}, [(("a",), 2), (("b",), 2)], [])
    assert edits.revert({"a": 3, "b": 4}, entries) == ([], [])


def test_list_loses_only_what_was_added() -> None:
    entries = edits.note({"a": ["x"]}, [(("a",), ["x", "y"])], [])
    assert edits.revert({"a": ["z", "y", "x"]}, entries) == ([(("a",), ["z", "x"])], [])
    assert edits.revert({"a": ["z"]}, entries) == ([], [])


def test_second_edit_remembers_the_first_state() -> None:
    first = edits.note({"a": ["x"]}, [(("a",), ["x", "y"])], [])
    second = edits.note({"a": ["x", "y"]}, [(("a",), ["x", "y", "z"])], first)
    assert second == [edits.Entry(("a",), ["x", "y", "z"], (["x"],), 0)]
    other = edits.note({"a": ["q"]}, [(("a",), ["q", "z"])], first)
    assert other == [edits.Entry(("a",), ["q", "z"], (["q"],), 0)]


@given(cases(), st.sampled_from([None, 1, 4, "\t"]), st.booleans())
def test_json_edit_is_the_one_that_was_meant(case: Any, indent: Any, crlf: bool) -> None:
    config, changes = case
    text = json.dumps(config, indent=indent, ensure_ascii=False) + "\n"
    text = text.replace("\n", "\r\n") if crlf else text
    after = json_text.edit(text, changes)
    expected = edits.apply(config, changes, [])
    assert json.loads(after) == expected
    assert json_text.edit(after, changes) == after
    back = edits.revert(expected, edits.note(config, changes, []))
    restored = json_text.edit(after, *back)
    assert json.loads(restored) == config
    if indent == 4 and not crlf and all(config.values()):
        assert restored == text


@given(cases())
def test_json_order_and_foreign_lines_stay(case: Any) -> None:
    config, changes = case
    after = json.loads(json_text.edit(json.dumps(config, indent=2), changes))
    assert list(after)[: len(config)] == list(config)


@given(cases())
def test_toml_edit_is_the_one_that_was_meant(case: Any) -> None:
    config, changes = case
    text = tomlkit.dumps(config)
    after = toml.edit(text, changes)
    expected = edits.apply(config, changes, [])
    assert toml.parse(after, "x") == expected
    back = edits.revert(expected, edits.note(config, changes, []))
    assert toml.parse(toml.edit(after, *back), "x") == config


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "features": {\n    "cdi": true\n  }\n}\n'),
        ("{}", '{\n  "features": {\n    "cdi": true\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "features": {"cdi": true}}'),
        (
            '{\n\t"a": [1, 2]\n}\n',
            '{\n\t"a": [1, 2],\n\t"features": {\n\t\t"cdi": true\n\t}\n}\n',
        ),
        (
            '{\n   "features" : { "x":1 },\n   "b": 2\n}',
            '{\n   "features" : { "x":1, "cdi": true },\n   "b": 2\n}',
        ),
        (
            '{\n  "features": {}\n}',
            '{\n  "features": {\n    "cdi": true\n  }\n}',
        ),
        ('{"features": {"cdi": false}}', '{"features": {"cdi": true}}'),
    ],
)
def test_json_keeps_its_looks(text: str, after: str) -> None:
    assert json_text.edit(text, [(("features", "cdi"), True)]) == after


def test_damaged_json_names_the_place() -> None:
    with pytest.raises(NodeError, match=r"/x is not valid JSON.*line 2, column 7"):
        json_text.parse('{"a": 1,\n "b": , }\n', "/x")
    with pytest.raises(NodeError, match="not a JSON object: list"):
        json_text.parse("[]", "/x")


def test_value_in_the_place_of_a_table_is_refused() -> None:
    with pytest.raises(NodeError, match="features is not an object: cdi must be set in it"):
        json_text.edit('{"features": true}', [(("features", "cdi"), True)])
    with pytest.raises(NodeError, match="a is not a table: b must be set in it"):
        toml.edit("a = 1\n", [(("a", "b"), True)])
