# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulated machines and their clients."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvsim import genuine
from nvsim.testing import Sim, start


@pytest.fixture
def h100() -> Iterator[Sim]:
    with start("h100-80", 8) as sim:
        yield sim


@pytest.fixture
def a100() -> Iterator[Sim]:
    with start("a100-40", 2) as sim:
        yield sim


@pytest.fixture(scope="session")
def nvidia_smi() -> Path:
    """Return the genuine nvidia-smi."""
    return genuine.nvidia_smi()


@pytest.fixture
def smi(nvidia_smi: Path) -> Callable[..., str]:
    """Return a function that runs nvidia-smi on a machine."""

    def run(sim: Sim, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [nvidia_smi, *words], env=sim.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run
