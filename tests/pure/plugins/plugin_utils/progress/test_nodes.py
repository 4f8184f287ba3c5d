# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of a node at the end."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.plugin_utils.progress.live import (
    Work,
    heartbeats,
    rows,
)
from ansible_collections.gpu.node.plugins.plugin_utils.progress.nodes import ProgressNode, offers
from ansible_collections.gpu.node.plugins.plugin_utils.progress.summary import Row
from ansible_collections.gpu.node.plugins.plugin_utils.progress.text import Names

COUNTS = dict.fromkeys(
    ("ok", "changed", "failures", "unreachable", "skipped", "rescued", "ignored"), 0
)


def test_a_reboot_settles_what_was_pending() -> None:
    node = ProgressNode()
    assert node.reboot == ""
    node.learn("gpu_info", {"reboot_required": False})
    assert node.reboot == ""
    node.learn("nvidia_driver", {"reboot_required": True, "loaded_version": None})
    node.learn("mig", {"reboot_required": False, "gpus": []})
    assert (node.reboot, node.driver) == ("pending", "not loaded")
    node.learn("reboot", {"rebooted": True})
    assert node.reboot == ""


def test_what_changes_is_newer_than_what_was_found() -> None:
    node = ProgressNode()
    found = {"gpu_info": {"driver": {"version": "535"}, "pci_gpus": [{}], "gpus": []}}
    node.learn("preflight", found)
    assert node.driver == "535"
    node.learn("nvidia_driver", {"loaded_version": "550", "installed_version": "550"})
    node.learn("gpu_info", found)
    assert node.driver == "550"


def test_a_look_that_failed_says_nothing_of_the_driver() -> None:
    node = ProgressNode()
    node.learn("gpu_info", {"failed": True, "msg": "the interpreter is not there"})
    node.learn("plan", {"failed": True, "msg": "plan: mig_selected: 'hafl' is not valid"})
    assert (node.driver, node.gpus) == ("", True)
    node.learn("gpu_info", {"gpu_info": {"pci_gpus": [{}], "driver": None}})
    assert node.driver == "not loaded"


@pytest.mark.parametrize(
    ("gpus", "shown"),
    [
        ([{"mig_enabled": False, "instances": []}] * 8, "off"),
        ([{"mig_enabled": True, "instances": []}], "on, no instances"),
        ([{"mig_enabled": True, "instances": [{}]}, {"instances": []}], "1 of 2 partitioned"),
    ],
)
def test_mig_layouts_are_shown_in_a_few_words(gpus: list[dict[str, object]], shown: str) -> None:
    node = ProgressNode()
    node.learn("mig", {"gpus": gpus})
    assert node.mig == shown


def test_what_no_kubelet_knows_is_not_called_ready() -> None:
    one = {"devices": 1, "registered": False}
    assert (
        offers({"nvidia.com/gpu": one})
        == "1 GPU device advertised, not registered with a kubelet yet"
    )
    assert offers({}) == ""


@pytest.mark.parametrize(
    ("counts", "result"),
    [
        ({"unreachable": 1, "failures": 1}, "unreachable"),
        ({"failures": 1, "changed": 2}, "failed"),
        ({"rescued": 1, "changed": 2}, "rescued"),
        ({"changed": 2, "ok": 3}, "changed"),
        ({"skipped": 2}, "skipped"),
        ({}, "ok"),
    ],
)
def test_the_result_of_a_node_is_its_worst_count(counts: dict[str, int], result: str) -> None:
    assert Row("n1", ProgressNode(), {**COUNTS, **counts}).result == result


def test_a_heartbeat_comes_once_in_its_time_and_names_all_nodes_of_a_task() -> None:
    working = {f"n{one}": Work("Build", begun=float(one)) for one in range(9)}
    assert heartbeats(working, 59.0, 60) == []
    working["n9"] = Work("Look", begun=69.0)
    assert heartbeats(working, 70.0, 60) == [
        "  . 1 min 10 s  n0, n1, n2 and 6 more  Build: still running"
    ]
    assert heartbeats(working, 120.0, 60) == []
    assert len(heartbeats(working, 130.0, 60)) == 2


def test_quick_tasks_and_questions_get_no_line() -> None:
    working = {"n1": Work("Look", begun=9.5), "n2": Work("Build", begun=1.0)}
    assert rows(working, Names(9), 10.0, (80, 8)) == ["  .       9 s  n2  Build"]
    working["n1"].asks = True
    assert rows(working, Names(9), 10.0, (80, 8)) == []
