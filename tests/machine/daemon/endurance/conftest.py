# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Rounds of a fault on a node of the test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.rounds import Rounds

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

GPU = "nvidia.com/gpu"
MakeRounds = Callable[..., Rounds]


@pytest.fixture
def rounds(record_property: Callable[[str, object], None]) -> MakeRounds:
    """Return a function that begins the rounds of a fault on a node whose GPUs are all well."""

    def begin(fault: str, node: Node, pids: Callable[[], object] | None = None) -> Rounds:
        def healthy() -> int:
            return list(node.health(GPU).values()).count("Healthy") if node.resources() else 0

        def daemon() -> object:
            assert node.daemon is not None
            return node.daemon.pid, node.daemon.poll(), node.logged().count("info: started")

        return Rounds(fault, healthy, pids or daemon, record_property)

    return begin
