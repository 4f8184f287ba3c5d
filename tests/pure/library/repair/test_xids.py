# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The list of XIDs: what it has, and what a user may write in its place."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action
from ansible_collections.gpu.node.plugins.module_utils._repair.xids.known import TABLE
from ansible_collections.gpu.node.plugins.module_utils._repair.xids.table import Row, parse
from hypothesis import given
from hypothesis import strategies as st

OWN: dict[str, Any] = {
    "as_of": "2026-10-01",
    "xids": {
        "79": {"action": "replace", "meaning": "gone", "source": "us", "read": "2026-10-01"},
        94: {"action": "none", "times": 2, "then": "ask"},
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("own", [True, None, "true", TABLE])
def test_the_collections_list_is_the_default(own: object) -> None:
    found = parse(own)
    assert str(found.as_of) == TABLE["as_of"]
    assert found.xids[79].action is Action.REBOOT


@pytest.mark.parametrize("none", [False, {}, "false"])
def test_there_may_be_no_list(none: object) -> None:
    assert parse(none).xids == {}


def test_a_users_list_is_in_its_place() -> None:
    found = parse(OWN)
    assert found.as_of == datetime.date(2026, 10, 1)
    assert found.xids == {
        79: Row(Action.REPLACE, "gone"),
        94: Row(Action.NONE, times=2, then=Action.ASK),
    }


def test_each_row_says_where_it_is_from_and_when_it_was_read() -> None:
    assert len(TABLE["xids"]) > 100
    for row in TABLE["xids"].values():
        assert row["source"].startswith("https://docs.nvidia.com/")
        day = datetime.date.fromisoformat
        assert day(row["read"]) <= day(TABLE["as_of"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"as_of": "soon"}, "xids.as_of: 'soon'"),
        ({"xids": []}, "xids.xids: [] is not valid"),
        ({"xids": {"many": {"action": "none"}}}, "expected the number of an XID, such as 79"),
        ({"xids": {"79": {}}}, "xids.xids.79.action"),
        ({"xids": {"79": {"action": "resett"}}}, "expected one of none, restart_application"),
        ({"xids": {"79": {"action": "none", "mening": ""}}}, "did you mean meaning?"),
        ({"xids": {"79": {"action": "none", "times": -1}}}, "xids.xids.79.times: -1"),
        ({"xids": {"79": {"action": "none", "driver": True}}}, "expected a branch, such as 565"),
        ({"xid": {}}, "did you mean xids?"),
    ],
)
def test_what_cannot_be_meant_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse({**copy.deepcopy(OWN), **change})
    assert said in str(refused.value)


@given(JSON)
def test_whatever_is_written_is_a_list_or_refused(values: Any) -> None:
    for one in (values, {"as_of": "2026-10-01", "xids": values}):
        try:
            parse(one)
        except InputError:
            continue
