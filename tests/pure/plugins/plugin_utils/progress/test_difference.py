# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Differences and values as lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.text.readable import as_yaml
from ansible_collections.gpu.node.plugins.plugin_utils.progress.difference import cut, difference
from ansible_collections.gpu.node.plugins.plugin_utils.progress.text import Line
from ansible_collections.gpu.node.plugins.plugin_utils.progress.values import reason
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.text("ab:#-{[ \n01.", max_size=12)
DATA: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda one: (
        st.lists(one, max_size=3) | st.dictionaries(st.text("abc", min_size=1), one, max_size=3)
    ),
    max_leaves=12,
)
ANY = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda one: st.lists(one, max_size=2) | st.dictionaries(st.text(), one, max_size=3),
)


def texts(given: Any, most: int = 0) -> list[str]:
    return [one.text for one in difference(given, most)]


@given(ANY)
def test_whatever_a_module_returns_is_shown_and_breaks_nothing(value: Any) -> None:
    assert isinstance(difference(value, 5), list)
    assert isinstance(difference({"before": value, "after": "x"}, 5), list)
    assert isinstance(as_yaml(value), str)
    assert reason({"msg": value, "stderr": value, "rc": value}) != ""


@given(st.dictionaries(st.text("abc", min_size=1), st.integers() | st.booleans() | st.none()))
def test_plain_data_is_yaml(data: dict[str, Any]) -> None:
    assert yaml.safe_load(as_yaml(data)) == data


@given(DATA, DATA)
def test_what_is_the_same_has_no_difference_and_what_is_not_has(before: Any, after: Any) -> None:
    pair = [json.dumps({"x": one}, indent=2, sort_keys=True) for one in (before, after)]
    found = texts({"before": pair[0], "after": pair[1]})
    if as_yaml({"x": before}) == as_yaml({"x": after}):
        assert found == []
    else:
        assert any(one[0] in "+-" for one in found)


def test_headers_and_notes_stand_above_a_difference() -> None:
    both = {"before": "a\n", "after": "b\n", "before_header": "/etc/x", "after_header": "/etc/x"}
    assert texts(both) == ["/etc/x", "@@ -1 +1 @@", "-a", "+b"]
    assert texts({"dst_binary": 1}) == ["the file that is there is binary"]
    assert texts([{"prepared": "+x\n"}, {"before": None, "after": "y\n"}]) == [
        "+x",
        "@@ -0,0 +1 @@",
        "+y",
    ]


@given(st.integers(0, 30), st.integers(1, 30))
def test_what_is_cut_is_counted(number: int, most: int) -> None:
    lines = [Line(str(one)) for one in range(number)]
    short = cut(lines, most)
    left = number - most
    assert len(short) == (number if left <= 1 else most + 1)
    assert left <= 1 or short[-1].text == f"\u2026 {left} more lines, all with -v"


def test_the_end_of_what_a_program_wrote_is_shown() -> None:
    said = reason({"msg": "failed", "rc": 3, "stderr": "\n".join(map(str, range(50)))})
    lines = said.splitlines()
    assert lines[:4] == ["failed", "exit status 3", "stderr:", "  \u2026 30 lines before"]
    assert lines[-1] == "  49"
    assert len(lines) == 24


def test_the_next_step_has_a_line_of_its_own() -> None:
    assert reason({"msg": "mig: no room. Next step: less"}) == "mig: no room.\nNext step: less"


def test_what_the_message_has_is_not_shown_twice() -> None:
    assert reason({"msg": "it says: no room", "stderr": "no room\n"}) == "it says: no room"


@pytest.mark.parametrize("depth", [100, 100_000])
def test_what_a_node_nests_too_deeply_is_named_and_not_followed(depth: int) -> None:
    text = "[" * depth + "]" * depth
    data: list[Any] = []
    for _level in range(depth):
        data = [data]
    for before in (text, data):
        shown = [line.text for line in difference({"before": before, "after": ""}, 0)]
        assert len(shown) == 2
        assert max(map(len, shown)) <= 2 * depth + 1
    assert shown[1] == "-(it is nested more than 64 deep)"
