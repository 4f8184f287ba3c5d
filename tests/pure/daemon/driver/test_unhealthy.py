# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is unhealthy now, why, since when, and what brings it back."""

from __future__ import annotations

from dataclasses import asdict, replace

from gpu_plugin._shared._repair.signs import Action
from gpu_plugin.config.configuration import overrides
from gpu_plugin.driver.health import Health
from gpu_plugin.driver.watch import Onsets, unhealthy, verdicts
from gpu_plugin.model.inventory import Inventory, Kind, Problem, Unhealthy, judged

from tests.fakes.daemon.gpu_builders import condition, inventory, view

QUIET = 10.0
FINE = inventory(view(0), view(1, "1g.10gb", "1g.10gb"))


class Node:
    """A node's health, and clocks that stand still until they are told to go on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.onsets = Onsets()
        self.health = Health(QUIET, lambda: self.now, lambda: 1e9 + self.now)
        assert self.unhealthy() == []

    def unhealthy(self, now: Inventory = FINE) -> list[Unhealthy]:
        self.health.judge(now, 1)
        return list(unhealthy(now, self.health.faults(), self.onsets, 1e9 + self.now))


def test_each_fault_has_its_place_and_its_time() -> None:
    node = Node()
    node.health.overrides = overrides("", "94")
    node.health.xid("GPU-1", 94, 7, 0)
    node.now = 105
    node.health.xid("GPU-0", 48)
    node.health.xid("GPU-1", 94, 7, 0)
    whole, part = node.unhealthy()
    assert asdict(whole) == {
        "gpu": "GPU-0",
        "index": "0",
        "gi": None,
        "ci": None,
        "kind": "fault",
        "reason": "XID 48 (a memory error that could not be corrected)",
        "since": 1_000_000_105,
        "way_back": "another load of the driver; or a reset of the GPU and then"
        " `gpu-plugin health clear GPU-0`, since nothing shows a reset here",
        "clearable": True,
        "verdict": "reset",
        "xid": 48,
    }
    assert (part.gpu, part.gi, part.ci, part.since) == ("GPU-1", 7, 0, 1_000_000_100)
    assert part.way_back == "it passes by itself after 10 seconds without another fault"
    node.now = 120
    assert node.unhealthy() == [whole]


def test_a_time_is_known_to_the_next_process() -> None:
    node = Node()
    node.health.xid("GPU-0", 48)
    (before,) = node.unhealthy()
    memory, node.now = node.health.memory(), 500
    node.health = Health(QUIET, lambda: node.now, lambda: 1e9 + node.now)
    node.health.recall(memory, 1)
    assert node.unhealthy() == [before]


def test_a_gpu_that_is_lost_is_there_once() -> None:
    node = Node()
    lost = inventory(view(0, problem="it can't be read", lost=True))
    (one,) = node.unhealthy(lost)
    assert (one.kind, one.reason, one.since) == ("lost", "it can't be read", 1_000_000_100)
    assert not one.clearable
    node.now = 200
    assert node.unhealthy(lost) == [one]
    (gone,) = node.unhealthy(inventory(view(1)))
    assert (gone.gpu, gone.index, gone.clearable) == ("GPU-0", "", True)
    assert gone.way_back.startswith("that the driver has the GPU again; of one that was taken out")
    assert node.health.clear("GPU-0")
    assert node.unhealthy(inventory(view(1))) == []


def test_no_reset_is_promised_for_a_gpu_that_is_off_the_bus() -> None:
    reboot = "a reboot of the node, or another GPU in its place: no reset brings it back"
    node = Node()
    node.health.xid("GPU-0", 79)
    assert [one.way_back for one in node.unhealthy()] == [reboot]
    node = Node()
    node.health.xid("GPU-0", 119)
    node.health.xid("GPU-0", 79)
    node.health.xid("GPU-0", 48)
    assert [one.way_back for one in node.unhealthy()] == [reboot]
    for verdict, way_back in ((Action.REBOOT, reboot), (Action.RESET, "a reset of the GPU")):
        node = Node()
        lost = view(0, problem="it can't be read", lost=True)
        assert lost.problem
        lost = replace(lost, problem=replace(lost.problem, verdict=verdict))
        (one,) = node.unhealthy(inventory(lost))
        assert one.way_back.startswith(way_back), verdict
        node.health.recall(node.health.memory(), 1)
        (one,) = node.unhealthy(inventory(lost))
        assert one.way_back.startswith(way_back), verdict


def test_what_is_hung_or_unreadable_counts_from_its_beginning() -> None:
    node = Node()
    hung = replace(FINE, hung=frozenset({"GPU-0"}))
    (first,) = node.unhealthy(hung)
    assert (first.kind, first.reason) == ("hung", "NVML has not answered for it for 60 seconds")
    assert first.way_back == "it passes by itself as soon as NVML answers for it again"
    node.now = 200
    assert node.unhealthy(hung) == [first]
    assert node.unhealthy() == []
    (again,) = node.unhealthy(inventory(view(0, problem="it can't be read")))
    assert (again.kind, again.since) == ("unreadable", 1_000_000_200)


def test_a_fault_of_a_gpu_that_hangs_is_named_beside_it() -> None:
    node = Node()
    node.health.xid("GPU-0", 48)
    kinds = [one.kind for one in node.unhealthy(replace(FINE, hung=frozenset({"GPU-0"})))]
    assert kinds == ["fault", "hung"]


def test_what_is_to_be_done_about_each_gpu_is_the_strongest_of_it() -> None:
    sick = replace(view(0), condition=condition(recovery=4, sram_exceeded=True))
    told = replace(view(1), condition=condition(recovery=5))
    fine = replace(view(2), condition=condition(recovery=0, pending=True))
    parted = replace(view(3, "1g.10gb", "1g.10gb"), condition=condition(recovery=0))
    lost = view(4, problem="it can't be read", lost=True)
    assert lost.problem
    lost = replace(lost, problem=replace(lost.problem, verdict=Action.RESET))
    now = replace(inventory(sick, told, fine, parted, lost), hung=frozenset({"GPU-2"}))
    faults = {
        ("GPU-3", 7, 0): Problem(Kind.FAULT, "XID 198", verdict=Action.ASK),
        ("GPU-3", 8, None): Problem(Kind.FAULT, "XID 94", verdict=Action.DRAIN_THEN_RESET),
    }
    assert [
        (one.gpu.uuid, action, text) for one, action, text in verdicts(judged(now, faults))
    ] == [
        ("GPU-0", Action.REPLACE, "its SRAM has more errors than NVIDIA allows"),
        (
            "GPU-1",
            Action.RECOVER_FABRIC,
            "the driver asks for a recovery of the IMEX domain (recovery action 5)",
        ),
        ("GPU-2", Action.REBOOT, "NVML has not answered for it for 60 seconds"),
        ("GPU-3", Action.ASK, "XID 198"),
        ("GPU-4", Action.RESET, "it can't be read"),
    ]
