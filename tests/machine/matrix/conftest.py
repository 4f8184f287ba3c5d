# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Cells of the matrix: an ansible-core and the Python of a node. The oldest of both is the short one."""

from __future__ import annotations

import itertools

import pytest

from tests.environments.environment import CORES

TARGETS = ("3.9", "3.10", "3.11", "3.12", "3.13")
OLDEST = ("core-2.19", "3.9")


def cells() -> list[object]:
    """Return the parameters of the whole matrix."""
    found = itertools.product(CORES, TARGETS)
    return [pytest.param(*one, marks=[] if one == OLDEST else [pytest.mark.long]) for one in found]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that takes a core and a Python run in each cell, and one that takes a core with each."""
    if "python" in metafunc.fixturenames:
        metafunc.parametrize(("core", "python"), cells())
    elif "core" in metafunc.fixturenames:
        metafunc.parametrize("core", CORES)
