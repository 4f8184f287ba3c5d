# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What shows that a GPU was reset, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gpu_plugin.driver.health import Health
from gpu_plugin.model.inventory import GpuView, Problem

from tests.fakes.daemon.gpu_builders import condition, inventory, view

QUIET = 10.0
ON = {"persistent": True}


def told(entries: tuple[int | None, ...] = (7, 8), **reading: Any) -> GpuView:
    return replace(view(0), condition=condition(**reading), entries=entries)


class Node:
    """A GPU with a fault that wants a reset, and a daemon that can be followed by another one."""

    def __init__(self, now: GpuView) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.start({})
        self.look(now)
        self.health.xid("GPU-0", 48)
        assert self.look(now)

    def start(self, memory: dict[str, Any]) -> None:
        self.health = Health(QUIET, lambda: self.now)
        self.health.on_reset = lambda uuid, shown_by: self.said.append(f"{uuid}: {shown_by}")
        if memory:
            self.health.recall(json.loads(json.dumps(memory)), 1)

    def restart(self) -> None:
        self.start(self.health.memory())

    def look(self, now: GpuView) -> list[Problem]:
        return list(self.health.judge(inventory(now), 1).values())

    def comes_back(self, now: GpuView) -> bool:
        assert self.look(now)
        self.now += QUIET
        return not self.look(now)


SHOWN = {
    "its energy counter began again": (told(energy=10**9, **ON), told(energy=5000, **ON)),
    "no memory row waits for a reset any more": (
        told(failed=False, pending=True),
        told(failed=False, pending=False),
    ),
    "it was taken off the bus or from the driver, and given back": (told(), told((7, 9))),
}


def test_a_reset_that_can_be_seen_is_seen() -> None:
    for restarted in (False, True):
        for sign in SHOWN:
            before, after = SHOWN[sign]
            node = Node(before)
            if restarted:
                node.restart()
            assert node.comes_back(after), sign
            assert node.said == [f"GPU-0: {sign}"], sign


def test_what_shows_no_reset_excuses_nothing() -> None:
    for before, after in (
        (told(energy=10**9, **ON), told(energy=10**9 + 1, **ON)),
        (told(energy=10**9, **ON), told(energy=10**9 - 1, **ON)),
        (told(energy=10**9, **ON), told()),
        (told(), told(energy=5, **ON)),
        # Without persistence mode the driver initialises a GPU again that nobody had open.
        (told(energy=10**9, persistent=False), told(energy=5000, persistent=False)),
        (told(energy=10**9, persistent=None), told(energy=5000, persistent=None)),
        (told(failed=False, pending=True), told()),
        (told((7, None)), told((7, 9))),
        (told((7, 8)), told((None, None))),
        (told((7, 8)), told(())),
    ):
        node = Node(before)
        node.restart()
        assert not node.comes_back(after), after
        assert node.said == [], after


def test_a_counter_that_grows_is_kept_now_and_then_only() -> None:
    node = Node(told(energy=10**6, **ON))
    kept = []
    for energy in range(10**6, 2 * 10**6, 1000):
        node.look(told(energy=energy, **ON))
        kept.append(node.health.memory()["signs"]["GPU-0"]["energy"])
    assert len(set(kept)) < 10
    assert node.comes_back(told(energy=9 * 10**5, **ON))


def test_a_fault_after_the_reset_waits_for_another_one() -> None:
    node = Node(told(energy=10**9, **ON))
    assert node.comes_back(told(energy=5000, **ON))
    node.health.xid("GPU-0", 48)
    for energy in (6000, 7000):
        assert not node.comes_back(told(energy=energy, **ON))
    node.look(told(energy=100, **ON))
    node.now += 2 * QUIET
    assert node.look(told(energy=200, **ON)) == []


def test_nothing_is_kept_of_a_gpu_that_waits_for_nothing() -> None:
    node = Node(told(energy=10**9, **ON))
    assert node.health.memory()["signs"] == {
        "GPU-0": {"energy": 10**9, "pending": False, "entries": (7, 8)}
    }
    node.comes_back(told(energy=5000, **ON))
    assert node.health.memory()["signs"] == {}
    node.health.xid("GPU-0", 94)
    node.look(told(energy=5000, **ON))
    assert node.health.memory()["signs"] == {}


def test_the_reason_says_what_brings_it_back_on_this_driver() -> None:
    for now, way_back in (
        (told(energy=10**9, **ON), "which the plugin notices"),
        (told(uncorrected=1), "which the plugin notices"),
        (told(failed=False, pending=True), "which the plugin notices"),
        (told(), "`gpu-plugin health clear GPU-0`"),
        (told(energy=10**9, persistent=False), "`gpu-plugin health clear GPU-0`"),
        (told(failed=True), "another GPU in its place: no reset repairs it"),
        (told(recovery=1), "a reset of the GPU: the driver says itself when that is done"),
    ):
        (problem,) = Node(now).look(now)
        assert way_back in problem.recovery, now


def test_an_operators_word_is_enough_but_for_what_the_gpu_still_says() -> None:
    node = Node(told())
    assert node.health.clear("GPU-0") == ["XID 48 (a memory error that could not be corrected)"]
    assert node.look(told()) == []
    assert node.health.clear("GPU-0") == []
    worn = Node(told(failed=True))
    assert worn.health.clear("GPU-0")
    assert worn.look(told(failed=True))


def test_of_a_mig_instance_its_destruction_is_a_way_too() -> None:
    health = Health(QUIET, lambda: 0.0)
    now = inventory(view(0, "1g.10gb"))
    health.judge(now, 1)
    health.xid("GPU-0", 199, 7, 0)
    (problem,) = health.judge(now, 1).values()
    assert problem.recovery.endswith("; or its MIG instance destroyed and made again")
