# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Cells of the matrix: an ansible-core and the Python of a node. The short ones have each core and each Python once."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tests.environments.environment import CORES, PythonMissingError, environment

TARGETS = ("3.9", "3.10", "3.11", "3.12", "3.13")
SHORT = {
    ("core-2.19", "3.9"),
    ("core-2.19", "3.10"),
    ("core-2.20", "3.11"),
    ("core-2.20", "3.12"),
    ("core-2.21", "3.13"),
}


def cells() -> list[object]:
    """Return the parameters of the whole matrix; those that are not short are marked."""
    found = itertools.product(CORES, TARGETS)
    return [pytest.param(*one, marks=[] if one in SHORT else [pytest.mark.long]) for one in found]


def made(name: str, version: str = "") -> Path:
    """Return an environment; where its Python is not here that is an error in CI, and no more than said elsewhere."""
    try:
        return environment(name, version)
    except PythonMissingError as error:
        if os.environ.get("MATRIX_REQUIRED"):
            raise
        pytest.skip(str(error))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that takes a core and a Python run in each cell, and one that takes a core with each."""
    if "python" in metafunc.fixturenames:
        metafunc.parametrize(("core", "python"), cells())
    elif "core" in metafunc.fixturenames:
        metafunc.parametrize("core", CORES)
