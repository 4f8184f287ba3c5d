# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Rounds of a fault on a node of the test's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.bench.rounds import Rounds
from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

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


def forgotten(node: Node) -> None:
    """Wait until faults count no longer; else the fourth in a row that passes by itself needs a reset."""
    kept = node.status_file.with_name("health.json")
    eventually(lambda: json.loads(kept.read_text())["health"]["faults"] == [])


def unhealthy(node: Node) -> int:
    """How often the daemon has said that a device is Unhealthy, which may last for a moment only."""
    return node.logged().count("device is unhealthy")
