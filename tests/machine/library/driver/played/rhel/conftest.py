# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines of the RHEL family, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.rhel.played_rhel import TOOLS, Machines


@pytest.fixture
def rhel(place: Path) -> Machines:
    """Return a maker of machines: the system, and what Rhel takes."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    return Machines(place)
