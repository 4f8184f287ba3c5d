# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""SUSE machines whose zypper is genuine, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import TOOLS, Suse
from tests.fakes.played.suse.rpms import Repositories, build
from tests.fakes.played.suse.suse_archive import Stage


@pytest.fixture(scope="session")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all channels take their packages from."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    pool = tmp_path_factory.mktemp("rpms")
    for release in (archive.SP6, archive.SP7, archive.SLE16):
        build(pool, archive.packages(release))
    return pool


@pytest.fixture
def suse(tmp_path: Path, rpms: Path) -> Callable[..., Suse]:
    """Return a maker of machines: what the channels have, and the release with its kernel."""

    def make(stage: Stage, **values: object) -> Suse:
        return Suse(tmp_path / "node", Repositories(tmp_path / "channels", rpms), stage, **values)

    return make
