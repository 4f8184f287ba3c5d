# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A manager of MPS daemons that other users of the node can reach."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nvsim import genuine
from nvsim.testing import start

from tests.fakes.mps.mps_running import Mps


@pytest.fixture
def mps() -> Iterator[Mps]:
    program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("another user can be played by root only")
    made = Mps(start("h100-80", 1), program)
    made.folder.chmod(0o755)  # the way to the manager's own folders, which is not its affair
    yield made
    made.stop()
    made.sim.stop()
