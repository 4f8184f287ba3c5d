# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines whose package manager is genuine, for the tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played import memory
from tests.fakes.played.apt_machine import TOOLS
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of the test's machine, in which is also what the module writes to /tmp."""
    with memory.place() as path:
        (path / "tmp").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(path / "tmp"))
        yield path


@pytest.fixture
def ubuntu(place: Path) -> Machines:
    """Return a maker of machines: the archive's packages, and the kernel that runs."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    return Machines(Ubuntu, place, "noble")
