# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When a GPU is unhealthy, and when it is fit again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_plugin.config.configuration import overrides
from gpu_plugin.driver.health import FORGET, STRIKES, Health
from gpu_plugin.model.inventory import Inventory, judged
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import condition, enumerate_devices, inventory, view

QUIET = 10.0
GPUS = inventory(view(0), view(1, "1g.10gb", "1g.10gb"))
LOST = inventory(view(0, problem="lost", lost=True), view(1, "1g.10gb", "1g.10gb"))
OTHER_LOST = inventory(view(0), view(1, problem="lost", lost=True))


class Node:
    """A node's health, and a clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.generation = 1
        self.health = Health(QUIET, lambda: self.now)
        assert set(self.problems().values()) == {""}

    def problems(self, now: Inventory = GPUS, strategy: str = "mixed") -> dict[str, str]:
        faults = self.health.judge(now, self.generation)
        found = enumerate_devices(judged(now, faults), strategy)
        return {one.id: str(one.problem or "") for devices in found.values() for one in devices}

    def unhealthy(self, now: Inventory = GPUS) -> set[str]:
        return {name for name, problem in self.problems(now).items() if problem}

    def pass_(self, seconds: float, now: Inventory = GPUS) -> set[str]:
        self.now += seconds
        return self.unhealthy(now)


@pytest.fixture
def node() -> Node:
    return Node()


def test_an_xid_concerns_all_that_is_made_of_the_gpu(node: Node) -> None:
    assert node.health.xid("GPU-1", 79, 7, 0)
    assert node.unhealthy() == {"MIG-1-0", "MIG-1-1"}
    assert node.problems()["MIG-1-0"] == (
        "XID 79 (it has fallen off the bus). Verdict: reboot. Way back: a reboot of the node, or another GPU in its"
        " place: no reset brings it back"
    )


def test_an_xid_of_an_instance_concerns_that_instance(node: Node) -> None:
    assert node.health.xid("GPU-1", 198, 7, 0)
    assert node.unhealthy() == {"MIG-1-0"}
    assert node.health.xid("GPU-1", 199, 8)
    assert node.unhealthy() == {"MIG-1-0", "MIG-1-1"}
    assert node.problems(strategy="none")["GPU-1"].startswith("XID 198, which the list does not")


def test_an_applications_own_fault_is_no_fault_of_the_gpu(node: Node) -> None:
    for number in (13, 31, 32, 43, 45, 63, 68, 69, 92, 94, 121, 137, 154):
        assert not node.health.xid("GPU-0", number), number
        assert node.unhealthy() == set(), number


@pytest.mark.parametrize("number", [48, 62, 74, 79, 95, 119, 12345])
def test_that_it_answers_does_not_make_it_fit_again(node: Node, number: int) -> None:
    node.health.xid("GPU-0", number)
    for now in (GPUS, GPUS, OTHER_LOST, GPUS):  # nor does another GPU that comes and goes
        assert "GPU-0" in node.pass_(1000, now)
    assert not node.health.xid("GPU-0", 48)
    assert node.problems()["GPU-0"].startswith(f"XID {number}")


def test_a_mig_layout_that_can_not_be_read_for_once_is_no_reset(node: Node) -> None:
    node.health.xid("GPU-0", 48)
    assert node.unhealthy(inventory(view(0, problem="can't be read"))) == {"GPU-0"}
    assert node.pass_(1000) == {"GPU-0"}


def test_a_fault_before_the_first_look_waits_for_a_reset_too() -> None:
    health = Health(QUIET, lambda: 0.0)
    health.xid("GPU-0", 79)
    (problem,) = health.judge(GPUS, 1).values()
    assert "Verdict: reboot." in str(problem)


def test_a_driver_that_was_loaded_anew_makes_it_fit_after_a_while(node: Node) -> None:
    node.health.xid("GPU-0", 48)
    assert node.pass_(1000) == {"GPU-0"}
    node.generation += 1
    assert node.unhealthy() == {"GPU-0"}
    assert node.pass_(QUIET - 0.1) == {"GPU-0"}
    assert node.pass_(0.2) == set()


def test_a_reset_makes_it_fit_after_a_while(node: Node) -> None:
    node.health.xid("GPU-0", 79)
    assert node.problems(LOST)["GPU-0"] == "lost"
    assert node.pass_(1000, LOST) == {"GPU-0"}
    assert node.unhealthy() == {"GPU-0"}
    assert node.pass_(QUIET) == set()


def test_a_gpu_that_was_taken_off_the_bus_and_put_back_was_reset(node: Node) -> None:
    node.health.xid("GPU-0", 79)
    assert node.pass_(1000, inventory(view(1, "1g.10gb"))) == set()
    assert node.unhealthy() == {"GPU-0"}
    assert node.pass_(QUIET) == set()


def test_a_fault_during_the_quiet_time_needs_another_reset(node: Node) -> None:
    node.health.xid("GPU-0", 79)
    node.generation += 1
    node.unhealthy()
    node.now += QUIET / 2
    node.health.xid("GPU-0", 79)
    assert node.pass_(1000) == {"GPU-0"}
    node.generation += 1
    node.unhealthy()
    assert node.pass_(QUIET) == set()


def test_instances_that_were_destroyed_were_reset(node: Node) -> None:
    node.health.xid("GPU-1", 199, 7, 0)
    assert node.pass_(1000) == {"MIG-1-0"}
    node.unhealthy(inventory(view(0), view(1, on=True)))
    assert node.pass_(QUIET) == set()


@pytest.mark.parametrize("number", [63, 92, 94])
def test_what_the_user_alone_wants_to_count_passes_when_it_stays_quiet(
    node: Node, number: int
) -> None:
    node.health.overrides = overrides("", str(number))
    assert node.health.xid("GPU-0", number)
    assert node.pass_(QUIET - 1) == {"GPU-0"}
    assert not node.health.xid("GPU-0", number)
    assert node.pass_(QUIET - 1) == {"GPU-0"}
    assert node.pass_(1) == set()


def test_each_return_doubles_the_quiet_time_until_it_is_not_let_pass(node: Node) -> None:
    node.health.overrides = overrides("", "31")
    for strike in range(1, STRIKES):
        assert node.health.xid("GPU-0", 31)
        assert node.pass_(QUIET * 2 ** (strike - 1) - 0.1) == {"GPU-0"}
        assert node.pass_(0.2) == set()
    assert node.health.xid("GPU-0", 31)
    assert node.pass_(1e6) == {"GPU-0"}
    assert "Verdict: reset." in node.problems()["GPU-0"]
    node.generation += 1
    node.unhealthy()
    assert node.pass_(QUIET * 2**STRIKES) == set()


def test_a_memory_error_that_comes_again_and_again_wants_a_reset(node: Node) -> None:
    for _each in range(3):
        for _burst in range(5):
            assert not node.health.xid("GPU-1", 94, 7, 0)
        assert node.pass_(QUIET) == set()
    assert node.health.effect("GPU-1", 94).value == "ignore"
    assert node.health.xid("GPU-1", 94, 7, 0)
    assert node.problems()["MIG-1-0"].startswith(
        "XID 94 (a memory error that only one application felt), 4 times. Verdict: drain_then_reset. Way back: no new"
    )
    node.generation += 1
    node.unhealthy()
    assert node.pass_(QUIET) == set()
    assert not node.health.xid("GPU-1", 94, 7, 0)


def test_a_driver_that_says_what_it_wants_goes_before_the_list() -> None:
    speaks = replace(told(recovery=0), driver_version="580.178.04")
    for number in (48, 64, 74, 95, 109, 149, 12345):
        node = Node()
        node.health.see(speaks)
        assert not node.health.xid("GPU-0", number), number
        assert "GPU-0" not in node.unhealthy(speaks), number
        assert node.health.xid("GPU-1", number), number  # whose driver does not say it
    node.health.overrides = overrides("", "48")
    assert node.health.xid("GPU-0", 48)  # but not before the user
    for number in (79, 119):
        node = Node()
        node.health.see(speaks)
        assert node.health.xid("GPU-0", number), number


def test_a_driver_before_its_recovery_action_knows_no_xids(node: Node) -> None:
    node.health.see(told(recovery=0))
    assert node.health.xid("GPU-0", 48)
    assert node.unhealthy(told(recovery=0)) == {"GPU-0"}


def told(**reading: Any) -> Inventory:
    """The GPUs, the first of which tells this of its condition."""
    return inventory(
        replace(view(0), condition=condition(**reading)), view(1, "1g.10gb", "1g.10gb")
    )


def test_worn_memory_is_unfit_for_as_long_as_the_gpu_says_so(node: Node) -> None:
    worn = told(failed=True)
    assert node.unhealthy(worn) == {"GPU-0"}
    assert node.problems(worn)["GPU-0"].startswith("a memory row could not be replaced")
    node.generation += 1
    assert node.pass_(1000, worn) == {"GPU-0"}
    assert node.pass_(1000, worn) == {"GPU-0"}
    node.generation += 1
    node.unhealthy()
    assert node.pass_(QUIET) == set()
    node.health.overrides = overrides("64", "")
    assert node.unhealthy(worn) == set()
    assert node.unhealthy(LOST) == {"GPU-0"}
    node.unhealthy(worn)
    assert node.pass_(2 * QUIET, worn) == set()


def test_what_is_long_over_is_forgotten(node: Node) -> None:
    node.health.overrides = overrides("", "31")
    node.health.xid("GPU-0", 31)
    assert node.pass_(QUIET) == set()
    assert node.pass_(QUIET * FORGET) == set()
    node.health.xid("GPU-0", 31)
    assert node.pass_(QUIET) == set()


def test_a_worse_fault_is_not_made_better_by_a_lesser_one(node: Node) -> None:
    node.health.overrides = overrides("", "94")
    node.health.xid("GPU-0", 94)
    node.health.xid("GPU-0", 95)
    node.health.xid("GPU-0", 94)
    assert node.pass_(1e6) == {"GPU-0"}
    assert node.problems()["GPU-0"].startswith("XID 95")


def test_a_gpu_that_falls_off_the_bus_again_and_again_is_not_trusted(node: Node) -> None:
    for _time in range(3):
        assert node.unhealthy(LOST) == {"GPU-0"}
        assert node.pass_(QUIET / 2) == {"GPU-0"}
    assert node.pass_(QUIET) == set()
    node.unhealthy(LOST)
    node.unhealthy()
    assert node.pass_(QUIET) == {"GPU-0"}
    assert node.pass_(QUIET) == set()


def test_nvidias_variables_say_which_xids_count() -> None:
    for disable, enable, unhealthy, fit in (
        ("", "", (48, 79), (13, 31, 94)),
        ("", "94", (48, 79, 94), (13, 31)),
        ("all", "", (), (13, 31, 48, 79, 94)),
        ("xids", "", (), (48, 79)),
        ("48, 94", "", (79,), (48, 94)),
        ("", "31", (31, 79), (13,)),
        ("79", "79", (79,), ()),
        ("all", "79", (79,), (48, 94, 13)),
        ("", "all", (13, 31, 79), ()),
        ("all", "all", (13, 31, 79), ()),
        ("48,all", "", (), (48, 79)),
    ):
        for number in (*unhealthy, *fit):
            node = Node()
            node.health.overrides = overrides(disable, enable)
            assert node.health.xid("GPU-0", number) is (number in unhealthy), disable


@given(
    st.lists(
        st.tuples(st.sampled_from([31, 94, 79, "reload", "lost", "back"]), st.floats(0, 4 * QUIET)),
        max_size=20,
    )
)
def test_after_a_reset_and_a_long_quiet_time_all_is_well(
    events: list[tuple[int | str, float]],
) -> None:
    node = Node()
    now = GPUS
    for event, seconds in events:
        if event == "reload":
            node.generation += 1
        elif isinstance(event, int):
            node.health.xid("GPU-0", event)
            if event == 79:
                assert "GPU-0" in node.unhealthy(now)
        else:
            now = LOST if event == "lost" else GPUS
        unhealthy = node.pass_(seconds, now)
        assert unhealthy <= {"GPU-0"}
        assert now is GPUS or unhealthy
    node.generation += 1
    node.unhealthy()
    assert node.pass_(QUIET * 2**6) == set()
