# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes with the DRA driver."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for driving
sys.path.insert(0, str(Path(__file__).parent / "publish"))  # for standin_slices

if TYPE_CHECKING:
    from driving import DraNode, MakeDra


@pytest.fixture
def make_dra() -> Iterator[MakeDra]:
    """Make nodes: GPUs of a product."""
    from driving import DraNode
    from nvsim import testing

    made: list[DraNode] = []

    def make(gpus: int = 2, *, product: str = "h100-80") -> DraNode:
        folder = Path(tempfile.mkdtemp(prefix="dra-"))
        made.append(DraNode(folder, testing.start(product, gpus)))
        return made[-1]

    yield make
    for node in made:
        node.stop()
        node.sim.stop()
        shutil.rmtree(node.folder)
