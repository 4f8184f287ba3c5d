# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node for the tests that need one."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for gpu_builders and running

if TYPE_CHECKING:
    from running import Node

MakeNode = Callable[..., "Node"]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Make nodes: GPUs of a product, and a driver unless it is None."""
    from nvsim import testing
    from running import Node

    made: list[Node] = []

    def make(gpus: int = 2, *, product: str = "h100-80", driver: str | None = "550.163.01") -> Node:
        folder = Path(tempfile.mkdtemp(prefix="gp-"))
        made.append(Node(folder, testing.start(product, gpus, driver=driver)))
        return made[-1]

    yield make
    for node in made:
        node.stop()
        node.sim.stop()
