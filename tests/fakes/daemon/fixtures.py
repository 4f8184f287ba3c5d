# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Fixtures: nodes for the tests that need one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.folder import elsewhere

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Start
    from tests.fakes.daemon.running import Node
    from tests.fakes.mps.mps_sharing import Shared

MakeNode = Callable[..., "Node"]
MakeShared = Callable[..., "Shared"]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Make nodes: GPUs of a product, and a driver unless it is None."""
    from tests.fakes.daemon.running import nodes

    with nodes() as make:
        yield make


@pytest.fixture
def small_run(make_node: MakeNode) -> Iterator[Node]:
    """A node whose /run is so small that nothing more fits after a few files."""
    node = make_node(2)
    folder = node.status_file.parent
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("file systems can't be mounted here")
    yield node
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # its daemon still writes there


@pytest.fixture
def labeller(make_node: MakeNode) -> Iterator[Start]:
    """Make nodes as make_node does, with the process that labels them."""
    from tests.fakes.daemon.labelling import Labeller

    made: list[Labeller] = []

    def make(*arguments: Any, **more: Any) -> Labeller:
        made.append(Labeller(make_node(*arguments, **more)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def make_shared(make_node: MakeNode) -> Iterator[MakeShared]:
    """Make nodes that share GPUs by MPS; with so many Healthy shares, where a number is given."""
    from nvsim import genuine

    from tests.fakes.mps.mps_sharing import GPU, Shared

    genuine_program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made: list[Shared] = []

    def make(
        count: int = 0,
        mps: str = "",
        *,
        gpus: int = 1,
        program: Path = genuine_program,
        product: str = "h100-80",
    ) -> Shared:
        made.append(Shared(make_node(gpus, product=product), program))
        made[-1].node.start_kubelet()
        if count:
            made[-1].start(mps)
            made[-1].wait(GPU, count)
        return made[-1]

    yield make
    for one in made:
        one.node.stop()
        one.kill_all()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder that no disk has, for tests that write tens of thousands of times."""
    with tempfile.TemporaryDirectory(dir=elsewhere("/dev/shm")) as folder:
        yield Path(folder)


@pytest.fixture
def standin(tmp_path: Path) -> Path:
    """A control program that has clients without CUDA: processes that hold a connection."""
    from tests.fakes.mps.mps_running import STANDIN, ControlProgram

    return ControlProgram(tmp_path / "standin", STANDIN, STANDIN_CLIENTS=1).path
