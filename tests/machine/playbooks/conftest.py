# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine.playbooks.scene import Scene

MakeScene = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> MakeScene:
    """Return a function that makes nodes with driver 550, on which the whole collection has run."""
    return lambda *names: Scene(tmp_path, *names)


@pytest.fixture
def one(scene: MakeScene) -> Scene:
    """Return one such node."""
    return scene("n1")
