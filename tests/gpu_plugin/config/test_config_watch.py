# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A configuration that changes on disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin.config.sources import SETTLE, ConfigWatch

if TYPE_CHECKING:
    from conftest import MakeNode
    from running import Node

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually
pytestmark = pytest.mark.slow

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def noticed(watch: ConfigWatch, clock: Clock) -> list[bool]:
    """What it says at once, when the file has settled, and after that."""
    answers = [watch.changed()]
    for _time in range(2):
        clock.now += SETTLE
        answers.append(watch.changed())
    return answers


def test_a_change_is_told_once_and_when_it_is_complete(tmp_path: Path) -> None:
    file, clock = tmp_path / "config.yaml", Clock()
    file.write_text("version: v1")
    watch = ConfigWatch(file, clock)
    assert noticed(watch, clock) == [False, False, False]
    file.write_text("version: v1\n")
    assert not watch.changed()
    clock.now += SETTLE
    file.write_text("version: v1\n\n")  # it is still being written
    assert noticed(watch, clock) == [False, True, False]


def test_a_file_that_is_replaced_appears_or_goes(tmp_path: Path) -> None:
    file, clock = tmp_path / "config.yaml", Clock()
    watch = ConfigWatch(file, clock)
    file.write_text("a")
    assert noticed(watch, clock) == [False, True, False]
    other = tmp_path / "other"
    other.write_text("b")
    other.replace(file)
    assert noticed(watch, clock) == [False, True, False]
    file.unlink()
    assert noticed(watch, clock) == [False, False, False]


def test_a_link_that_points_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("a")
    file, clock = tmp_path / "config.yaml", Clock()
    file.symlink_to("one")
    watch = ConfigWatch(file, clock)
    os.unlink(file)
    file.symlink_to("two")
    assert noticed(watch, clock) == [False, True, False]


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
    node.start_daemon()
    node.wait(GPU, 1)
    for number in range(100):
        shared(node, 2 + number % 7)
    shared(node, 9)
    node.wait(SHARED, 9)
    replace(node, node.config.read_text())  # written again, but the same
    count = node.logged().count("configuration loaded")
    node.sim.ctl("xid", gpu="0", number=94)
    node.wait(SHARED, 0)
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
