# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the filters make of hostvars."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.filter import rollout_settings, rollout_stop

SETTINGS = rollout_settings.FilterModule().filters()["rollout_settings"]
STOP = rollout_stop.FilterModule().filters()["rollout_stop"]


def pinned(**options: Any) -> dict[str, Any]:
    return {"__pinned": {"options": options}}


def test_settings_are_read_from_the_pinned_options_of_the_roll_outs_nodes_alone() -> None:
    hostvars: dict[str, Any] = {
        "a": pinned(mig_serial="2", gpu_nodes_max_unavailable="10%"),
        "b": {**pinned(mig_serial="2"), "gpu_nodes_serial": "what a node may say"},
        "c": pinned(mig_serial=7),
    }
    assert SETTINGS(hostvars, ["a", "b"], ["mig_serial"]) == {
        "problem": "",
        "aliases": ["mig_serial"],
        "serial": [2],
        "max_unavailable": "10%",
        "max_fail_percentage": None,
    }


def test_what_is_wrong_is_an_answer() -> None:
    found = SETTINGS({"a": pinned(gpu_nodes_serial="all")}, ["a"])
    assert found["problem"].startswith("gpu_nodes_serial of a: 'all' is not valid")


def test_a_roll_out_ends_by_what_became_of_its_nodes() -> None:
    failed = {"__rollout_node": {"state": "failed", "batch": ["a"], "reason": "no"}}
    hostvars: dict[str, Any] = {"a": failed, "b": {}, "c": {"__rollout_node": {}}}
    limits = SETTINGS({"a": {}, "b": {}}, ["a", "b"])
    assert "1 of 3 nodes failed (a)" in STOP(hostvars, ["a", "b", "c"], limits, ["b"])
    assert STOP(hostvars, ["b", "c"], limits, ["b"]) == ""
