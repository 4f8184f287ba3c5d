# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Environments that a test needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments.environment import PythonMissingError, environment


@contextlib.contextmanager
def python_needed() -> Iterator[None]:
    """Skip a test whose Python is not here; in CI that is an error."""
    try:
        yield
    except PythonMissingError as error:
        if os.environ.get("MATRIX_REQUIRED"):
            raise
        pytest.skip(str(error))


def made(name: str, version: str = "") -> Path:
    """Return the folder of an environment that a test needs."""
    with python_needed():
        return environment(name, version)
