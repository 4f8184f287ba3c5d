# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines whose package manager is genuine, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.debs import Deb, Mirror
from tests.fakes.played.rooted import H100
from tests.fakes.played.ubuntu.played_ubuntu import TOOLS, Ubuntu


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all mirrors take their packages from."""
    return tmp_path_factory.mktemp("pool")


@pytest.fixture
def ubuntu(tmp_path: Path, pool: Path) -> Callable[..., Ubuntu]:
    """Return a maker of machines: the archive's packages, and the kernel that runs."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)

    def make(packages: Iterable[Deb], kernel: str, gpu: str = H100) -> Ubuntu:
        mirror = Mirror(tmp_path / "mirror", pool, "noble")
        mirror.publish(packages)
        return Ubuntu(tmp_path / "node", mirror, kernel, gpu)

    return make
