# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose GPUs are reset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nvsim import genuine
from nvsim.testing import client, start

from tests.machine.library.repair.reset.scene import OPEN, SERVED, Scene


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Return a node with four GPUs, by default H100s behind NVSwitches."""
    product = getattr(request, "param", "h100-80")
    with start(product, 4, driver="595.91.07") as sim:
        yield Scene(sim, genuine.nvidia_smi())


@pytest.fixture
def sick(machine: Scene) -> Scene:
    """Return a node that has services on its GPUs, and one of which the driver wants a reset."""
    machine.change(**SERVED)
    client(machine.sim, OPEN + "n.nvmlDeviceSetPersistenceMode(h, 1)")
    machine.sim.ctl("recovery", gpu="0", action=1)
    return machine
