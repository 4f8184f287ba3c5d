# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU and its driver ask for makes it unhealthy until it is done, as the verdict of a repair has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_plugin._shared._base.gpu import Condition, Fabric, FaultSigns, Rows
from gpu_plugin._shared._repair.signs import ACTIONS, STEPS, GpuSigns, NodeSigns, Xid
from gpu_plugin._shared._repair.verdict import RECOVERIES, judge_gpu
from gpu_plugin.driver.health import Health
from gpu_plugin.model.inventory import Inventory
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import condition, inventory, view

QUIET = 10.0


def told(**reading: Any) -> Inventory:
    """A GPU that tells this of its condition."""
    return inventory(replace(view(0), condition=condition(**reading)))


class Node:
    """A node's health, and a clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.health = Health(QUIET, lambda: self.now)

    def problem(self, now: Inventory) -> str:
        return "; ".join(map(str, self.health.judge(now, 1).values()))

    def fit(self, now: Inventory, after: float = 0) -> bool:
        self.now += after
        return not self.problem(now)


@pytest.fixture
def node() -> Node:
    return Node()


NUMBERS = {1: "reset", 2: "reboot", 3: "drain_then_reset", 4: "drain_then_reset", 6: "reset"}
NUMBERS |= {7: "reboot", 8: "ask", 99: "ask"}


@pytest.mark.parametrize("action", NUMBERS)
def test_what_the_driver_asks_for_has_to_be_done_first(node: Node, action: int) -> None:
    verdict = NUMBERS[action]
    judge_gpu = RECOVERIES.get(action, (None, "what this version does not know"))[1]
    assert node.problem(told(recovery=action)) == (
        f"the driver asks for {judge_gpu} (recovery action {action}). Verdict: {verdict}. Way back: "
        f"{STEPS[ACTIONS[verdict]]}: the driver says itself when that is done"
    )
    assert not node.fit(told(recovery=action), after=1e6)
    for _look in range(2):
        assert not node.fit(told(recovery=None), after=1e6)
    assert not node.fit(told(recovery=0))
    assert node.fit(told(recovery=0), after=QUIET)


def test_what_concerns_its_links_to_others_alone_leaves_a_gpu_in_use(node: Node) -> None:
    for action in (0, 5):
        assert node.fit(told(recovery=action)), action
    for fabric in (
        Fabric(9),
        Fabric(3, status=9),
        Fabric(3, health=1 << 4),
        Fabric(3, health=5 << 8),
    ):
        assert node.fit(told(fabric=fabric)), fabric


@pytest.mark.parametrize("sign", ["sram_exceeded", "unrepairable", "failed"])
def test_memory_that_is_worn_out_wants_another_gpu(node: Node, sign: str) -> None:
    worn = told(recovery=0, **{sign: True})
    assert node.problem(worn).endswith(
        "Verdict: replace. Way back: another GPU in its place: no reset repairs it"
    )
    for _look in range(2):  # it is silent of that, as with MIG instances
        assert not node.fit(told(recovery=0), after=1e6)
    assert not node.fit(told(recovery=0, **{sign: False}))
    assert node.fit(told(recovery=0, **{sign: False}), after=QUIET)


def test_a_driver_that_changes_its_mind_is_told_as_it_is_now(node: Node) -> None:
    for action in (2, 1, 4):
        problem = node.problem(told(recovery=action))
        assert f"(recovery action {action}). Verdict: {NUMBERS[action]}." in problem
    node.health.xid("GPU-0", 79)
    assert "Verdict: reboot." in node.problem(told(recovery=4))


SIGNS = st.builds(
    FaultSigns,
    recovery=st.none() | st.integers(0, 9),
    rows=st.none() | st.builds(Rows, st.just(0), st.just(0), st.booleans(), st.booleans()),
    sram_exceeded=st.none() | st.booleans(),
    repair_pending=st.none() | st.booleans(),
    unrepairable=st.none() | st.booleans(),
)


@given(SIGNS, st.integers(1, 200), st.sampled_from([550, 565, 580, 595]))
def test_a_gpu_is_unhealthy_where_a_repair_would_fence_it_and_for_the_same_reason(
    signs: FaultSigns, number: int, branch: int
) -> None:
    now = inventory(replace(view(0), condition=Condition(signs)))
    now = replace(now, driver_version=f"{branch}.1")
    health = Health(QUIET, lambda: 0.0)
    health.see(now)
    health.xid("GPU-0", number)
    found = health.judge(now, 1)
    xid = GpuSigns("GPU-0", signs=signs, xids=(Xid(number),))
    verdict = judge_gpu(NodeSigns(branch), xid)
    assert bool(found) is verdict.action.fences
    strongest = {(one.action, one.text) for one in verdict.reasons if one.action is verdict.action}
    assert {(one.verdict, one.reason) for one in found.values()} <= strongest
