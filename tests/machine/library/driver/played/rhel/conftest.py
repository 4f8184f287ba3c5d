# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines of the RHEL family, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.rhel.played_rhel import DNF5, TOOLS, Rhel
from tests.fakes.played.rhel.rhel_archive import repositories
from tests.fakes.played.rhel.rhel_systems import EL9, System


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[System], dict[str, Path]]:
    """Return what builds the repositories of a system, once for each."""
    found: dict[System, dict[str, Path]] = {}

    def get(system: System) -> dict[str, Path]:
        if system not in found:
            found[system] = repositories(tmp_path_factory.mktemp(system.dist), system)
        return found[system]

    return get


@pytest.fixture
def rhel(tmp_path: Path, built: Callable[[System], dict[str, Path]]) -> Callable[..., Rhel]:
    """Return a maker of machines, which takes what Rhel takes."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)

    def make(system: System = EL9, **values: object) -> Rhel:
        if system.tool == "dnf5" and not DNF5.is_dir():
            pytest.skip(f"needs dnf 5 in {DNF5}, which tests/setup-dnf5 puts there")
        return Rhel(tmp_path / "node", built(system), system, **values)  # type: ignore[arg-type]

    return make
