# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are folders.

A roll-out takes half a minute, so the first test of each file stands for it in ``make test``; the others are long, and
so are those of what other folders test in parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine.playbooks.scene import Scene

LONG = ("test_hooks.py", "test_repair.py", "test_slurm.py")
MakeScene = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> MakeScene:
    """Return a function that makes nodes with driver 550, on which the whole collection has run."""
    return lambda *names: Scene(tmp_path, *names)


@pytest.fixture
def one(scene: MakeScene) -> Scene:
    """Return one such node."""
    return scene("n1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as long, but for the first of each file that is not."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for path, tests in itertools.groupby(here, key=lambda item: item.path):
        for test in itertools.islice(tests, path.name not in LONG, None):
            test.add_marker(pytest.mark.long)
