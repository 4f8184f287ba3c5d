# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How many nodes of a fleet are in repair at a time, counted from what each says now."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.repair_budget import repair_budget
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import Change
from ansible_collections.gpu.node.plugins.plugin_utils.controller.repair_budget import Node, budget
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import this_run
from hypothesis import given
from hypothesis import strategies as st

NOTHING = {"works": False, "new": [], "fence": [], "close": []}
RESET = {**NOTHING, "works": True}
WELL: dict[str, Any] = {
    "work": NOTHING,
    "refused": "",
    "held": "",
    "lease": {},
    "change": {},
    "in_repair": [],
}
SICK = {**WELL, "work": RESET}
ENDED = Change("repair", "ctl-1", "ops", "m", 7, "ended", "2027-01-15T08:00:00Z")


def chosen(limit: Any = 1, **seen: Any) -> dict[str, Any]:
    hosts = {
        name: {"__repair_seen": one, "repair_max_unavailable": limit} for name, one in seen.items()
    }
    return repair_budget(hosts, list(hosts))


def test_new_repairs_begin_as_far_as_the_limit_has_room() -> None:
    found = chosen(2, a=SICK, b=WELL, c=SICK, d=SICK)
    assert found["nodes"] == ["a", "c"]
    assert (
        "d: not repaired now, since 0 of 4 nodes are out of service or in repair (none)"
        in found["told"][0]
    )
    assert "repair_max_unavailable is 2" in found["told"][0]


def test_nodes_with_a_case_and_nodes_that_do_not_answer_have_used_it_up() -> None:
    waits = {**WELL, "in_repair": ["GPU-a"]}
    assert chosen(1, a=waits, b=SICK)["nodes"] == []
    assert chosen(1, a={"unreachable": True}, b=SICK)["nodes"] == []
    assert chosen(2, a=waits, b=SICK)["nodes"] == ["b"]
    assert "a does not answer" in chosen(1, a={"unreachable": True}, b=WELL)["told"]


def test_what_has_begun_goes_on_whatever_the_limit_is() -> None:
    begun = {**SICK, "in_repair": ["GPU-a"]}
    assert chosen(1, a=begun, b=begun, c=SICK)["nodes"] == ["a", "b"]
    cut_off = {**WELL, "change": {**ENDED._asdict(), "failed": "the node was lost"}}
    assert chosen(1, a=cut_off, b=begun)["nodes"] == ["a", "b"]


def test_a_node_that_another_change_has_is_left_alone_and_counts() -> None:
    other = this_run("upgrade_driver")
    goes_on = {
        **SICK,
        "change": other._replace(machine="another", begun="2099-01-01T00:00:00Z")._asdict(),
    }
    found = chosen(1, a=goes_on, b=SICK)
    assert found["nodes"] == []
    assert "a is not repaired now: the node is in the middle of upgrade_driver" in found["told"][0]


def test_a_lease_without_its_marker_is_respected_and_that_of_a_run_that_is_over_is_not() -> None:
    held = {**SICK, "held": "ops repairs the node since 8", "lease": {"holder": "ops"}}
    assert "a is not repaired now: ops repairs the node" in chosen(1, a=held)["told"][0]
    over = {**held, "lease": {"holder": ENDED.holder}, "change": {**ENDED._asdict(), "failed": "x"}}
    assert chosen(1, a=over)["nodes"] == ["a"]


def test_a_node_that_cannot_be_judged_is_told_of_with_the_reason() -> None:
    found = chosen(1, a={"failed": True, "msg": "repair.json is damaged"}, b=WELL)
    assert (found["nodes"], found["told"]) == (
        [],
        ["a is not repaired now: repair.json is damaged"],
    )
    clock = {**SICK, "refused": "the node's clock is behind"}
    assert "clock is behind" in chosen(1, a=clock)["told"][0]


def test_nothing_is_told_of_a_fleet_of_which_nothing_is_wrong() -> None:
    assert chosen("10%", a=WELL, b=WELL) == {"problem": "", "nodes": [], "told": []}


@pytest.mark.parametrize("limit", [0, "0%", "120%", -1, "some"])
def test_a_limit_that_is_none_is_refused_by_name(limit: Any) -> None:
    assert chosen(limit, a=SICK)["problem"].startswith("repair_max_unavailable of a")
    assert chosen(limit, a=SICK)["nodes"] == []


nodes = st.builds(Node, st.booleans(), st.booleans(), st.sampled_from(["", "held"]), st.booleans())


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), nodes, max_size=12),
    st.integers(1, 12) | st.integers(1, 100).map("{}%".format),
)
def test_whatever_nodes_say_no_more_begin_than_there_is_room(
    fleet: dict[str, Node], limit: int | str
) -> None:
    found = budget(fleet, limit)
    most = limit if isinstance(limit, int) else max(1, len(fleet) * int(limit[:-1]) // 100)
    out = {name for name, one in fleet.items() if one.out or not one.answers}
    new = set(found.nodes) - out
    assert len(new) <= max(0, most - len(out))
    assert all(
        fleet[one].needed and fleet[one].answers and not fleet[one].refused for one in found.nodes
    )
    going = {name for name, one in fleet.items() if one.needed and one.answers and not one.refused}
    assert going & out <= set(found.nodes)
