# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a roll-out goes over its nodes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.plugin_utils.controller.rollout import (
    BEGUN,
    FAILED,
    RolloutNode,
    Settings,
    settings,
    stopped,
)

ALIASES = ("mig_serial",)
NODES = ("a", "b", "c", "d", "e")


def same(name: str, value: Any) -> dict[str, dict[str, Any]]:
    return {name: dict.fromkeys(NODES, value)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, (1,)),
        ("3", (3,)),
        ("100%", ("100%",)),
        ([1, "25%", "2"], (1, "25%", 2)),
        (2.0, (2,)),
        (" 5 ", (5,)),
    ],
)
def test_a_serial_is_a_number_a_percentage_or_a_list(value: Any, expected: Any) -> None:
    assert settings(same("gpu_nodes_serial", value))[0].serial == expected


@pytest.mark.parametrize(
    "value",
    [0, -1, 1.5, "abc", "", "0%", "101%", "1.5%", [], [0], [[1]], None, True, {}, "nan", "inf"],
)
def test_another_serial_is_refused_with_the_node_that_has_it(value: Any) -> None:
    with pytest.raises(InputError, match=r"gpu_nodes_serial of b: .* is not valid: expected"):
        settings({"gpu_nodes_serial": {"b": value}})


def test_without_variables_one_node_changes_at_a_time_and_none_may_fail() -> None:
    assert settings({}) == (Settings((1,), None, None), [])


def test_an_older_name_counts_where_the_newer_is_not_given() -> None:
    assert settings(same("mig_serial", "50%"), ALIASES) == (Settings(("50%",)), ["mig_serial"])
    both = {**same("mig_serial", "50%"), **same("gpu_nodes_serial", 2)}
    assert settings(both, ALIASES) == (Settings((2,)), ["mig_serial"])


@pytest.mark.parametrize(
    "name", ["gpu_nodes_serial", "gpu_nodes_max_unavailable", "gpu_nodes_max_fail_percentage"]
)
def test_nodes_that_disagree_are_named(name: str) -> None:
    with pytest.raises(
        InputError,
        match=f"{name}: nodes of one roll-out disagree: 2 for a, b, c and 1 more, 3 for e",
    ):
        settings({name: {"a": 2, "b": 2, "c": 2, "d": 2, "e": 3}})


@pytest.mark.parametrize("value", ["x", -1, 100.5, True, None, [1], "1%%"])
def test_a_percentage_is_from_0_to_100(value: Any) -> None:
    with pytest.raises(InputError, match="gpu_nodes_max_fail_percentage of a: "):
        settings({"gpu_nodes_max_fail_percentage": {"a": value}})


def nodes(*failed: str, batch: int = 1) -> dict[str, RolloutNode]:
    """Return nodes of which all have had their turn, in batches of a size."""
    batches = [NODES[at : at + batch] for at in range(0, len(NODES), batch)]
    return {
        name: RolloutNode(FAILED if name in failed else "done", one)
        for one in batches
        for name in one
    }


@pytest.mark.parametrize(
    ("limits", "failed", "batch", "ends"),
    [
        (Settings(), "", 1, False),
        (Settings(), "a", 5, True),
        (Settings(max_unavailable=2), "a", 1, False),
        (Settings(max_unavailable=2), "ab", 1, True),
        (Settings(max_unavailable="40%"), "a", 1, False),
        (Settings(max_unavailable="40%"), "ab", 1, True),
        (Settings(max_unavailable="1%"), "a", 1, True),
        (Settings(max_fail_percentage=50), "ac", 2, False),
        (Settings(max_fail_percentage=50), "ab", 2, True),
        (Settings(max_fail_percentage=0), "e", 5, True),
        (Settings(max_fail_percentage=100), "abcde", 1, False),
        (Settings(max_unavailable=2, max_fail_percentage=100), "ab", 1, True),
        (Settings(max_unavailable=4, max_fail_percentage=10), "a", 5, True),
    ],
)
def test_the_limits_end_a_roll_out(limits: Settings, failed: str, batch: int, ends: bool) -> None:
    said = stopped(nodes(*failed, batch=batch), limits)
    assert bool(said) == ends
    assert said.startswith(
        f"{len(failed)} of 5 nodes failed (a" if ends and failed[0] == "a" else ""
    )


def test_a_node_that_was_lost_in_its_change_counts_once_its_batch_is_over() -> None:
    found = {"a": RolloutNode(BEGUN, ("a",)), "b": RolloutNode()}
    assert stopped(found, Settings(), ("a",)) == ""
    assert stopped(found, Settings(), ("b",)).startswith("1 of 2 nodes failed (a), and neither")
