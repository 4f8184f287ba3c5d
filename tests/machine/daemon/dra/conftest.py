# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes with the DRA driver."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fakes.dra.driving import DraNode, MakeDra


@pytest.fixture
def make_dra() -> Iterator[MakeDra]:
    """Make nodes: GPUs of a product."""
    from nvsim import testing

    from tests.fakes.dra.driving import DraNode

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
