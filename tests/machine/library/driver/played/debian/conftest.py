# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian machines whose apt is genuine, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.apt_machine import TOOLS
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import fragile

TRIXIE = KERNELS["trixie"]


@pytest.fixture
def debian(place: Path) -> Machines:
    """Return a maker of machines of Debian 13."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    return Machines(place, "trixie")


@pytest.fixture
def done(debian: Machines) -> PlayedDebian:
    """Return a machine with the driver 550, whose archive has 535 too, and whose packages can be made to fail."""
    return debian.driven(map(fragile, archive(TRIXIE, "550.163.01", "535.261.03")), TRIXIE)
