# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node with two simulated GPUs, NVIDIA's genuine control program, and enforcements on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.helper_process import kill

if TYPE_CHECKING:
    from tests.fakes.dra.enforcing import Enforcing
    from tests.fakes.mps.mps_running import Mps

Enforce = Callable[..., "Enforcing"]


@pytest.fixture
def node() -> Iterator[Mps]:
    from nvsim import genuine
    from nvsim.testing import start

    from tests.fakes.mps.mps_running import Mps

    program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made = Mps(start("h100-80", 2), program)
    yield made
    _end_manager(made)
    made.stop()
    made.sim.stop()


@pytest.fixture
def enforce(node: Mps) -> Iterator[Enforce]:
    """Start enforcements on the node, each in a process of its own."""
    from tests.fakes.dra.enforcing import Enforcing

    made: list[Enforcing] = []

    def start(**more: object) -> Enforcing:
        made.append(Enforcing(node, **more))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for one in made:
        one.kill()


def _end_manager(node: Mps) -> None:
    """Kill the manager that an enforcement started, which outlives it."""
    import json

    try:
        pid = json.loads((node.settings / "manager.json").read_text())["pid"]
        kill(pid)
    except (OSError, ValueError, KeyError):
        pass
