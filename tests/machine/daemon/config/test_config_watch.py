# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A configuration that changes on disk."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node


GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


def shared(node: Node, replicas: int) -> str:
    text = (
        "sharing: {timeSlicing: {renameByDefault: true,"
        f" resources: [{{name: gpu, replicas: {replicas}}}]}}}}"
    )
    replace(node, text)
    return text


def replace(node: Node, text: str) -> None:
    trial = node.config.with_suffix(".new")
    trial.write_text(text)
    trial.replace(node.config)


def test_a_changed_file_is_applied_and_a_bad_one_is_not(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    assert node.daemon is not None
    shared(node, 3)
    node.wait(SHARED, 3)
    eventually(lambda: node.resources().get(GPU) == 0)

    replace(node, "sharing: {timeSlicing: {resources: [{name: gpu, replica: 5}]}}")
    eventually(lambda: "did you mean" in (node.status()["config_problem"] or ""))
    assert node.resources()[SHARED] == 3
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "configuration on disk refused" in shown

    text = shared(node, 5)
    node.wait(SHARED, 5)
    eventually(lambda: node.status()["config_problem"] is None)
    assert node.status()["config_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert node.status()["pid"] == node.daemon.pid
    assert node.logged().count("info: started") == 1


def test_many_changes_end_with_the_last(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon("", DP_ENABLE_HEALTHCHECKS="94")
    node.wait(GPU, 1)
    for number in range(100):
        shared(node, 2 + number % 7)
    shared(node, 9)
    node.wait(SHARED, 9)
    replace(node, node.config.read_text())  # written again, but the same
    count = node.logged().count("configuration loaded")
    node.sim.ctl("xid", gpu="0", number=94)
    eventually(lambda: "device is healthy again" in node.logged())
    node.wait(SHARED, 9)
    assert node.logged().count("configuration loaded") == count


def test_another_driver_root_needs_a_new_process(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    replace(node, f"flags: {{nvidiaDriverRoot: {node.folder}}}")
    eventually(lambda: node.logged().count("info: started") == 2)
    node.wait(GPU, 1)
