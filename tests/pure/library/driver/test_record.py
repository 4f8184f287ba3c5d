# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's record of additions."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.packages.driver_nodes import FULL, MAIN, actions, converged

NAMES = st.frozensets(st.text())


KINDS = {"FrozenSet": NAMES, "bool": st.booleans(), "str": st.text()}
FIELDS = {
    one.name: next(of for kind, of in KINDS.items() if kind in str(one.type))
    for one in dataclasses.fields(Record)
}


@given(st.builds(Record, **FIELDS))
def test_record_survives_the_round_trip(record: Record) -> None:
    assert Record.load(record.dump(), "r.json") == record
    assert bool(record) is (record != Record())


def test_node_without_a_record_has_had_no_additions() -> None:
    assert not Record.load(None, "r.json")
    assert not Record.load("{}", "r.json")
    assert Record.load('{"sources": true}', "r.json") == Record(sources=True)


@pytest.mark.parametrize(
    "text", ["", '{"packages": ["dk', "[]", '{"packages": "dkms"}', '{"holds": [1]}', "null"]
)
def test_damaged_record_is_refused_by_name(text: str) -> None:
    with pytest.raises(NodeError, match=r"^r\.json is damaged"):
        Record.load(text, "r.json")


def test_a_file_of_sources_that_somebody_has_removed_comes_back() -> None:
    """Though the lists that were fetched by it still have everything."""
    record = dataclasses.replace(converged().history.record, sources=True)
    gone = converged(sources=(MAIN,), own_sources=None, record=record)
    assert actions(gone) == ["sources", "refresh"]
    assert actions(gone, manage_sources=False) == []
    assert actions(converged(sources=(FULL,), own_sources=None, record=record)) == []
