# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are folders.

A roll-out takes half a minute, so the first test of each file stands for it in ``make test``; the others are long.
"""

from __future__ import annotations

import itertools
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as long, but for the first of each file."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for _path, tests in itertools.groupby(here, key=lambda item: item.path):
        for test in itertools.islice(tests, 1, None):
            test.add_marker(pytest.mark.long)
