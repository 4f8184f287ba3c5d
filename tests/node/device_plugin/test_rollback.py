# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release of the daemon that does not start, on a node where one serves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from gpunode_tool.testing import Node

from tests.support.paths import REPOSITORY

PACKAGE = REPOSITORY / "files/gpu_plugin"
UNIT = "gpu-device-plugin.service"

pytestmark = [pytest.mark.node, pytest.mark.long]


def broken(folder: Path) -> Path:
    """A package whose daemon ends at once, though its other commands work."""
    copy = folder / "package"
    shutil.copytree(PACKAGE, copy)
    daemon = copy / "src/gpu_plugin/daemon.py"
    daemon.write_text(daemon.read_text() + '\n\nraise SystemExit("this release has a flaw")\n')
    return copy


def state(node: Node) -> tuple[str, str, dict[str, int]]:
    """The release that is current, the one that runs, and what the kubelet can allocate."""
    current = node.run("readlink", "/opt/gpu-node/current").strip().rsplit("/", 1)[-1]
    shown = node.run("systemctl", "show", UNIT, "--property=ActiveState,Environment")
    return current, shown, node.allocatable()


def test_a_release_that_does_not_start_is_taken_back(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("rollback", "h100-80", 2)
    before = state(node)
    assert before[2] == {"gpu": 2}

    second = node.play(__device_plugin_package=str(broken(tmp_path)), device_plugin_wait_timeout=60)
    assert not second.ok
    (failed,) = (result for _action, _task, result in second.results() if "rolled_back" in result)
    assert failed["rolled_back"] is True
    assert failed["release"] == before[0]
    assert "the device plugin ends again and again" in failed["msg"]
    assert "this release has a flaw" in failed["cause"]
    assert state(node) == before
    assert not node.run("sh", "-c", "ls /opt/gpu-node/rollback.json 2>&1 | grep -v No", check=False)

    third = node.play()
    assert third.ok, third.message()
    assert third.changed() == []
