# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The list of device nodes, by which the CDI specification is made again when one comes or goes."""

from __future__ import annotations

from pathlib import Path

from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin.cdi.files import NODES_FILE, NodesList
from gpu_plugin.tools import status


def node(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_node_that_comes_later_changes_the_list_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    node(tmp_path, "dev/nvidiactl", "dev/nvidia0", "dev/null", "dev/dri/card0")
    kept, file = NodesList(tmp_path, tmp_path / "run" / NODES_FILE), tmp_path / "run" / NODES_FILE
    kept.refresh("/")
    assert file.read_text() == "/dev/dri/card0\n/dev/nvidia0\n/dev/nvidiactl\n"
    before = file.stat().st_ino
    (tmp_path / "dev/nvidiactl").write_text("used")
    node(tmp_path, "dev/shm/x")
    kept.refresh("/")
    assert file.stat().st_ino == before
    node(tmp_path, "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap12")
    kept.refresh("/")
    assert file.stat().st_ino != before
    assert {"/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap12"} < set(file.read_text().split("\n"))


def test_it_is_the_file_that_the_path_unit_watches() -> None:
    assert str(Path(status.DEFAULT_FILE).parent / NODES_FILE) == cdi_boot.NODES


def test_nodes_of_a_driver_that_lies_elsewhere(tmp_path: Path) -> None:
    node(tmp_path, "run/driver/dev/nvidiactl", "dev/nvidia7")
    NodesList(tmp_path, tmp_path / "run" / NODES_FILE).refresh("/run/driver")
    assert (tmp_path / "run" / NODES_FILE).read_text() == "/dev/nvidiactl\n"
