# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A controller with a taken node among its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.taken_node.scene import TakenScene


@pytest.fixture
def scene(tmp_path: Path) -> TakenScene:
    """Return the nodes."""
    return TakenScene(tmp_path)
