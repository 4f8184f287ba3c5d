# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files that describe the node's GPUs, by which their specifications are read again."""

from __future__ import annotations

from pathlib import Path

from gpu_plugin.cdi.files import node_sources

from tests.fakes.host.old_times import rewrite_with_old_time


def test_a_file_that_is_put_back_with_its_old_time_is_another_source(tmp_path: Path) -> None:
    path = tmp_path / "etc/cdi/nvidia.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("one")
    before = node_sources(tmp_path)
    assert before
    assert node_sources(tmp_path) == before
    rewrite_with_old_time(path, "two")
    assert node_sources(tmp_path) != before
