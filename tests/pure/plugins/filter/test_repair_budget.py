# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How many nodes of a fleet are in repair at a time, counted from what each says now."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter import repair_budget as repair_budget_filter
from ansible_collections.gpu.node.plugins.filter.repair_budget import repair_budget
from ansible_collections.gpu.node.plugins.module_utils._base.text.strict import written
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import Change
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    RepairCase,
    RepairCases,
    cases_as_data,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action
from ansible_collections.gpu.node.plugins.plugin_utils.controller.repair_budget import (
    BudgetNode,
    budget,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import this_run
from hypothesis import given
from hypothesis import strategies as st

LISTS = ("cases", "new", "fence", "reset", "with_them", "reboot", "prove", "close", "evict")
FLAGS = ("works", "cordon", "together")
NOTHING = {"next": "nothing", **{name: [] for name in LISTS}, **dict.fromkeys(FLAGS, False)}
RESET = {**NOTHING, "works": True}
WELL: dict[str, Any] = {
    "next": "nothing",
    "work": NOTHING,
    "gpus": [],
    "lines": [],
    "problem": "",
    "refused": "",
    "held": "",
    "lease": {},
    "change": {},
    "in_repair": [],
    "cases": {},
}
SICK = {**WELL, "work": RESET}
NOW = 1_800_000_000.0
UUID = "GPU-00000000-0000-0000-0000-000000000001"
ENDED = Change("repair", "ctl-1", "ops", "m", 7, "ended", written(NOW - 60))


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_budget_filter, "_time", lambda: NOW)


def repairing(answer: dict[str, Any], hours: float) -> dict[str, Any]:
    """Return the answer of a node with an open case, for which something was done so many hours ago."""
    case = RepairCase(verdict=Action.RESET, since=NOW - hours * 3600)
    cases = cases_as_data(RepairCases(None, {UUID: case}))["gpus"]
    return {**answer, "in_repair": [UUID], "cases": cases}


def chosen(limit: Any = 1, **seen: Any) -> dict[str, Any]:
    hosts = {
        name: {
            "__repair_seen": one,
            "__pinned": {"options": {"repair_max_unavailable": limit}},
            "repair_max_unavailable": "what a node may say",
        }
        for name, one in seen.items()
    }
    return repair_budget(hosts, list(hosts))


def test_new_repairs_begin_as_far_as_the_limit_has_room() -> None:
    found = chosen(2, a=SICK, b=WELL, c=SICK, d=SICK)
    assert found["nodes"] == ["a", "c"]
    assert (
        "d: not repaired now, since 0 of 4 nodes are out of service or in repair (none)"
        in found["reasons"][0]
    )
    assert "repair_max_unavailable is 2" in found["reasons"][0]


def test_nodes_with_a_case_and_nodes_that_do_not_answer_have_used_it_up() -> None:
    waits = repairing(WELL, hours=1)
    assert chosen(1, a=waits, b=SICK)["nodes"] == []
    assert chosen(1, a={"unreachable": True}, b=SICK)["nodes"] == []
    assert chosen(2, a=waits, b=SICK)["nodes"] == ["b"]
    assert "a does not answer" in chosen(1, a={"unreachable": True}, b=WELL)["reasons"]


def test_what_has_begun_goes_on_whatever_the_limit_is() -> None:
    begun = repairing(SICK, hours=1)
    assert chosen(1, a=begun, b=begun, c=SICK)["nodes"] == ["a", "b"]
    cut_off = {**WELL, "change": {**ENDED._asdict(), "failed": "the node was lost"}}
    assert chosen(1, a=cut_off, b=begun)["nodes"] == ["a", "b"]


def test_a_node_that_another_change_has_is_left_alone_and_counts() -> None:
    other = this_run("upgrade_driver")
    goes_on = {
        **SICK,
        "change": other._replace(machine="another", begun=written(NOW - 60))._asdict(),
    }
    found = chosen(1, a=goes_on, b=SICK)
    assert found["nodes"] == []
    assert (
        "a is not repaired now: the node is in the middle of upgrade_driver" in found["reasons"][0]
    )


def test_a_lease_without_its_marker_is_respected_and_that_of_a_run_that_is_over_is_not() -> None:
    held = {**SICK, "held": "ops repairs the node since 8", "lease": lease("ops")}
    assert "a is not repaired now: ops repairs the node" in chosen(1, a=held)["reasons"][0]
    over = {**held, "lease": lease(ENDED.holder), "change": {**ENDED._asdict(), "failed": "x"}}
    assert chosen(1, a=over)["nodes"] == ["a"]


def lease(holder: str) -> dict[str, str]:
    return {"holder": holder, "since": written(NOW - 60), "boot_id": ""}


def test_a_node_that_cannot_be_judged_is_told_of_with_the_reason() -> None:
    found = chosen(1, a={"failed": True, "msg": "repair.json is damaged"}, b=WELL)
    assert (found["nodes"], found["reasons"]) == (
        [],
        ["a is not repaired now: it can't be judged: repair.json is damaged"],
    )
    clock = {**SICK, "refused": "the node's clock is behind"}
    assert "clock is behind" in chosen(1, a=clock)["reasons"][0]


def test_nothing_is_told_of_a_fleet_of_which_nothing_is_wrong() -> None:
    assert chosen("10%", a=WELL, b=WELL) == {"problem": "", "nodes": [], "reasons": []}


@pytest.mark.parametrize("limit", [0, "0%", "120%", -1, "some"])
def test_a_limit_that_is_none_is_refused_by_name(limit: Any) -> None:
    assert chosen(limit, a=SICK)["problem"].startswith("repair_max_unavailable of a")
    assert chosen(limit, a=SICK)["nodes"] == []


@pytest.mark.attack("answer-of-a-taken-node")
def test_a_node_for_which_nothing_was_done_for_long_does_not_keep_others_from_repair() -> None:
    fleet = dict.fromkeys("bcdefghij", SICK)
    recent = chosen("10%", a=repairing(SICK, hours=1), **fleet)
    assert recent["nodes"] == ["a"]
    for hours in (13, -1000):
        found = chosen("10%", a=repairing(SICK, hours=hours), **fleet)
        assert found["nodes"] == ["a", "b"]
        assert "a: in repair or out of service, with nothing done" in found["reasons"][0]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.attack("answer-of-a-taken-node")
@given(st.data())
def test_an_answer_of_another_shape_ends_no_repair_of_others(data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(["work", "change", "lease", "cases", ""]))
    wrong: Any = {**repairing(SICK, hours=1), "change": ENDED._asdict(), "lease": lease("ops")}
    inner = wrong[part] if part else wrong
    key = data.draw(st.sampled_from(sorted(inner)))
    changed = {**inner, key: data.draw(ANYTHING)}
    if data.draw(st.booleans()):
        del changed[key]
    seen = {**wrong, part: changed} if part else changed
    assert "b" in chosen(2, a=seen, b=SICK)["nodes"]


nodes = st.builds(
    BudgetNode,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "held"]),
    st.booleans(),
    st.booleans(),
)


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), nodes, max_size=12),
    st.integers(1, 12) | st.integers(1, 100).map("{}%".format),
)
def test_whatever_nodes_say_no_more_begin_than_there_is_room(
    fleet: dict[str, BudgetNode], limit: int | str
) -> None:
    found = budget(fleet, limit)
    most = limit if isinstance(limit, int) else max(1, len(fleet) * int(limit[:-1]) // 100)
    out = {name for name, one in fleet.items() if (one.out and one.counts) or not one.answers}
    going = {name for name, one in fleet.items() if one.out}
    new = set(found.nodes) - out - going
    assert len(new) <= max(0, most - len(out))
    assert all(
        fleet[one].needed and fleet[one].answers and not fleet[one].refused for one in found.nodes
    )
    going = {name for name, one in fleet.items() if one.needed and one.answers and not one.refused}
    assert going & out <= set(found.nodes)
