# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When the driver is asked how GPUs are connected."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest
from gpu_plugin._shared._base.gpu import Gpu, Links
from gpu_plugin.driver.asking import ANEW, Asking, Connections

from tests.fakes.daemon.gpu_builders import gpu

LINKS = "gpu_plugin._shared._machine.nvml.readings.links"
LEVEL = "gpu_plugin._shared._machine.nvml.readings.level"


class AtOnce(Asking):
    """Asks for one after the other."""

    def each(
        self,
        what: str,
        keys: Iterable[int],
        ask: Callable[[int], Any],
        known: Container[int],
    ) -> dict[int, Any]:
        return {at: ask(at) for at in keys}


def test_links_are_asked_for_again_as_they_may_train_late_or_be_lost_by_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus, now = [gpu(0), gpu(1)], 0.0
    asked: list[int] = []
    up = Links(0, {})
    monkeypatch.setattr(LEVEL, lambda *_gpus: 10)

    def links(one: Gpu) -> Links:
        asked.append(one.index)
        return up

    monkeypatch.setattr(LINKS, links)
    connections = Connections(lambda: now)

    def look() -> list[int]:
        asked.clear()
        connections.refresh(gpus, "generation", AtOnce())
        return sorted(asked)

    assert look() == [0, 1]
    assert look() == []
    known = connections.topology
    now += ANEW
    assert look() == [0, 1]
    assert connections.topology is known  # what is the same publishes nothing
    up = Links(0, {gpus[0].pci_bus_id: 4, gpus[1].pci_bus_id: 4})
    now += ANEW - 1
    assert look() == []
    now += 1
    assert look() == [0, 1]
    assert list(connections.topology.links.values()) == [up, up]
