# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose GPUs are tested under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim import genuine
from nvsim.testing import start

from tests.machine.library.accept.scene import AcceptScene
from tests.support import cuda


@pytest.fixture(scope="session")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stand-in for libcuda."""
    return cuda.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def node(libcuda: Path, request: pytest.FixtureRequest) -> Iterator[AcceptScene]:
    """Return a node with two GPUs, by default H100s."""
    with start(getattr(request, "param", "h100-80"), 2, driver="595.91.07") as sim:
        scene = AcceptScene(sim, genuine.nvidia_smi())
        scene.cuda = libcuda
        yield scene
