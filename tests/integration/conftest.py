# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulated nodes for the integration tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import GPUNODE, Node

sys.path.insert(0, str(Path(__file__).parent))  # for containers


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Return a function that starts a node; all are removed afterwards."""
    names = []

    def make(name: str, product: str, gpus: int, suite: str = "trixie", **variables: Any) -> Node:
        name = f"it-{name}"
        subprocess.run([GPUNODE, "down", name], check=False, capture_output=True)
        names.append(name)
        command = [GPUNODE, "up", name, "--suite", suite]
        command += ["--product", product, "--gpus", str(gpus)] if gpus else ["--no-gpu"]
        subprocess.run(command, check=True, capture_output=True)
        folder = tmp_path / name
        folder.mkdir()
        common = {"device_plugin_wheelhouse": os.environ["WHEELHOUSE"]}
        return Node(name, folder, {**common, **variables})

    yield make
    for name in names:
        subprocess.run([GPUNODE, "down", name], check=False, capture_output=True)
