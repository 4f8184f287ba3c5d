# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines whose package manager is genuine, for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

sys.path.extend(str(one) for one in (Path(__file__).parent, *Path(__file__).parent.glob("[a-z]*/")))

from apt_nodes import missing
from debs import Deb, Mirror
from played_ubuntu import TOOLS, Ubuntu
from rooted import H100


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
