# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Managers of MPS daemons, with NVIDIA's genuine control program or the stand-in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim import genuine
from nvsim.testing import start

from tests.fakes.mps.mps_running import STANDIN, MakeMps, Mps


@pytest.fixture
def make_mps() -> Iterator[MakeMps]:
    """Make machines: GPUs of a product, and what runs as the control program, the genuine one by default."""
    program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made: list[Mps] = []

    def make(
        gpus: int = 1,
        *,
        product: str = "h100-80",
        command: Path | str = program,
        **variables: object,
    ) -> Mps:
        made.append(Mps(start(product, gpus), command, **variables))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def mps(make_mps: MakeMps) -> Mps:
    return make_mps()


@pytest.fixture
def with_clients(make_mps: MakeMps) -> Mps:
    """Two GPUs, and clients that are processes of the test."""
    return make_mps(2, command=STANDIN, STANDIN_CLIENTS=1)
