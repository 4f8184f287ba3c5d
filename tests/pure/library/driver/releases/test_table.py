# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of branches and bulletins: what may be written, and what is refused."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Branch, Version
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.known import TABLE
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.table import parse
from hypothesis import given
from hypothesis import strategies as st

OWN: dict[str, Any] = {
    "as_of": "2026-10-01",
    "branches": {"580": {"kind": "lts", "end_of_support": "2028-06"}},
    "bulletins": [{"id": "5861", "date": "2026-09-30", "floors": {"580": "580.178.04"}}],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("none", [False, {}, "false", "False"])
def test_there_may_be_no_table(none: object) -> None:
    assert parse(none) is None


@pytest.mark.parametrize("own", [True, None, "true", TABLE])
def test_table_of_the_collection_is_the_default(own: object) -> None:
    found = parse(own)
    assert found is not None
    assert str(found.as_of) == TABLE["as_of"]
    assert found.branches["580"].kind == "lts"
    assert found.branches["535"].end_of_support == datetime.date(2026, 6, 30)
    assert found.bulletins[-1].floors["580"] == "580.178.04"


def test_each_row_of_the_collections_table_says_where_it_is_from_and_when_it_was_read() -> None:
    rows = [*TABLE["branches"].values(), *TABLE["bulletins"]]
    assert len(rows) >= 20
    for row in rows:
        assert row["source"].startswith("https://")
        assert datetime.date.fromisoformat(row["read"]) <= datetime.date.fromisoformat(
            TABLE["as_of"]
        )
    days = [one["date"] for one in TABLE["bulletins"]]
    assert days == sorted(days)
    assert {branch for one in TABLE["bulletins"] for branch in one["floors"]} <= TABLE[
        "branches"
    ].keys()


def test_users_table_takes_the_place_of_the_collections() -> None:
    found = parse(json.loads(json.dumps(OWN)))
    assert found is not None
    assert found.branches == {
        "580": Branch("lts", end_of_support=datetime.date(2028, 6, 30)),
    }
    assert [one.id for one in found.bulletins] == ["5861"]


def test_yaml_writes_days_and_branches_without_quotes() -> None:
    day = datetime.date(2028, 6, 30)
    found = parse({"as_of": datetime.date(2026, 10, 1), "branches": {580: {"end_of_support": day}}})
    assert found is not None
    assert found.branches["580"].end_of_support == day


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((), 3, r"releases: 3 is not valid: expected true for the collection's own, false"),
        ((), "x.json", r"releases: 'x.json' is not valid: expected true"),
        (("as_of",), "soon", r"releases\.as_of: 'soon' .*a day, such as 2026-09-30"),
        (("bulletin",), [], r"releases\.bulletin: \[\] .*did you mean bulletins\?"),
        (("branches",), [580], r"releases\.branches: \[580\] .*branches by their numbers"),
        (("branches", "R580"), {}, r"releases\.branches: 'R580' .*number of a branch, such as 580"),
        (("branches", "580", "kind"), "LTSB", r"releases\.branches\.580\.kind: .*one of lts, prod"),
        (("branches", "580", "end"), "2028", r"branches\.580\.end: .*did you mean ended\?"),
        (("branches", "580", "end_of_support"), "2028-13", r"end_of_support: '2028-13'.*2028-06"),
        (("branches", "580", "ended"), "no", r"branches\.580\.ended: 'no' .*true or false"),
        (("bulletins",), {"5861": {}}, r"releases\.bulletins: .*a list of bulletins"),
        (("bulletins", 0, "id"), 5861, r"bulletins\[0\]\.id: 5861 .*in quotes, such as '5861'"),
        (("bulletins", 0, "floors", "580"), 580.1, r"floors\.580: 580\.1 .*a version in quotes"),
        (("bulletins", 0, "floors", "580"), "570.1", r"floors\.580: '570\.1' .*of branch 580"),
    ],
)
def test_bad_table_is_refused_with_its_key(
    path: tuple[Any, ...], value: object, words: str
) -> None:
    values: Any = copy.deepcopy(OWN)
    if path:
        place = values
        for one in path[:-1]:
            place = place[one]
        place[path[-1]] = value
    with pytest.raises(InputError, match=words):
        parse(values if path else value)


@pytest.mark.parametrize("key", ["as_of", "id", "date", "floors"])
def test_what_must_be_there_is_named_where_it_is_not(key: str) -> None:
    values = copy.deepcopy(OWN)
    (values if key == "as_of" else values["bulletins"][0]).pop(key)
    with pytest.raises(InputError, match=rf"{key}: None is not valid"):
        parse(values)


@given(JSON)
def test_whatever_is_written_is_a_table_or_refused(value: object) -> None:
    if value is None or value is True or str(value).lower() in ("true", "false", "{}"):
        assert (parse(value) is None) is (value is False or str(value).lower() in ("false", "{}"))
        return
    with pytest.raises(InputError, match=r"^releases"):
        parse(value)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4), st.sampled_from(["", "-2", "rc1"]))
def test_versions_compare_as_numbers(parts: list[int], ending: str) -> None:
    assert Version(".".join(map(str, parts)) + ending).numbers == tuple(parts)
