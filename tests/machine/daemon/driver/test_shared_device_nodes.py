# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No device is given away while a device node is missing that all GPUs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia-uvm"])
def test_devices_are_held_back_while_a_shared_node_is_missing(
    make_node: MakeNode, name: str
) -> None:
    node = make_node(2)
    uuids = node.serve(2)
    path = node.sim.root / "dev" / name
    text = path.read_text()
    path.unlink()
    node.wait(GPU, 0)
    problems = node.status()["resources"][GPU]["problems"]
    assert set(problems) == set(uuids)
    assert all(problem.startswith(f"/dev/{name} does not exist") for problem in problems.values())
    path.write_text(text)
    node.wait(GPU, 2)
    eventually(lambda: not node.status()["resources"][GPU]["problems"])
