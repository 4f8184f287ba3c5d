# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the command lines do when nobody reads their output to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import SOURCES

INVENTORY = "nodes: [{name: n, count: 100, gpus: [{product: T4, count: 8}]}]\n"


@pytest.mark.parametrize(
    "command",
    [
        ("gpu_cluster", "show", "--inventory", "nodes.yaml"),
        ("gpu_cluster", "webhook", "--show-node", "node-1"),
        ("gpu_plugin", "check-config", "config.yaml"),
    ],
    ids=" ".join,
)
def test_a_reader_that_ends_early_is_no_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "nodes.yaml").write_text(INVENTORY)
    (tmp_path / "config.yaml").write_text("version: v1\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        process = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert b"BrokenPipeError" not in process.stderr
