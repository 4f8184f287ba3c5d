# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Three nodes that are folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.in_service.scene import Scene


@pytest.fixture
def three(tmp_path: Path) -> Scene:
    """Return three nodes with driver 550, on which the whole collection has run."""
    return Scene(tmp_path, "n1", "n2", "n3")


@pytest.fixture
def one(tmp_path: Path) -> Scene:
    """Return one such node."""
    return Scene(tmp_path, "n1")
