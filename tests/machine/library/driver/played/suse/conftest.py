# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""SUSE machines whose zypper is genuine, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.played.suse.played_suse import TOOLS, Machines


@pytest.fixture
def suse(place: Path) -> Machines:
    """Return a maker of machines: what the channels have, and the release with its kernel."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    return Machines(place)
