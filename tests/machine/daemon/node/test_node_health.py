# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of GPUs, from the driver's word to the kubelet's list and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvsim.ctl import Client
from nvsim.testing import VERSION

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

MIG = h.MIG
BACK = "device is healthy again"
WITH_RECOVERY = "580.178.04"  # a driver that says what it wants done


def test_a_fault_that_the_user_wants_to_count_passes_by_itself(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2, DP_ENABLE_HEALTHCHECKS="94")
    node.sim.ctl("xid", gpu="0", number=94)
    eventually(lambda: BACK in node.logged())
    node.wait(GPU, 2)
    assert "XID 94 (a memory error that only one application felt)" in node.logged()


def test_the_state_names_what_is_unfit(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    node.sim.ctl("xid", gpu="1", number=48)
    (one,) = eventually(lambda: node.status()["health"])
    since = one.pop("since")  # by the clock that files have too
    assert int(node.config.stat().st_mtime) <= since <= node.status_file.stat().st_mtime
    uuid = node.uuids()[1]
    assert one == {
        "gpu": uuid,
        "index": "1",
        "gi": None,
        "ci": None,
        "kind": "fault",
        "reason": "XID 48 (a memory error that could not be corrected)",
        "way_back": "another load of the driver; or a reset of the GPU and then"
        f" `gpu-plugin health clear {uuid}`, since nothing shows a reset here",
        "clearable": True,
        "verdict": "reset",
        "xid": 48,
    }
    wanted = {"index": "1", "verdict": "reset", "next_step": "a reset of the GPU"}
    assert node.status()["verdicts"] == {uuid: {"reason": one["reason"], **wanted}}


def test_an_xid_of_a_changed_recovery_action_makes_the_driver_be_asked(
    make_node: MakeNode,
) -> None:
    node = make_node(2, driver=WITH_RECOVERY)
    node.serve(2, "", "--rescan", "600")
    node.sim.ctl("xid", gpu="0", number=154)  # it says of itself nothing of the GPU
    node.sim.ctl("xid", gpu="0", number=137)
    node.sim.ctl("recovery", gpu="1", action=1)
    (one,) = eventually(lambda: node.status().get("health"))
    assert (one["index"], one["reason"]) == (
        "1",
        "the driver asks for a reset of the GPU (recovery action 1)",
    )
    node.wait(GPU, 1)


def test_a_fault_of_a_mig_instance_leaves_the_others(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "1g.10gb", "1g.10gb", "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}", "--recovery-period", "600")
    node.wait(MIG, 3)
    hit = node.sim.ctl("status")["gpus"][0]["mig_devices"][1]
    node.sim.ctl("xid", gpu="0", number=198, gi=hit["gi"], ci=hit["ci"])
    node.wait(MIG, 2)
    assert node.health(MIG)[hit["uuid"]] == "Unhealthy"
    node.sim.ctl("xid", gpu="0", number=95, gi=hit["gi"], ci=hit["ci"])
    node.wait(MIG, 0)


def test_nvidias_variables_say_which_xids_count(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1, DP_DISABLE_HEALTHCHECKS="all")
    node.sim.ctl("xid", gpu="0", number=79)
    eventually(lambda: "xid=79" in node.logged())
    unchanged(node.resources, {GPU: 1}, node.looks)
    node.kill()
    node.start_daemon("", DP_DISABLE_HEALTHCHECKS="xids", DP_ENABLE_HEALTHCHECKS="79")
    node.wait(GPU, 1)
    node.sim.ctl("xid", gpu="0", number=79)
    node.wait(GPU, 0)


def test_a_loaded_driver_alone_does_not_bring_a_gpu_back_at_once(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2, "", "--recovery-period", "600")
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    node.sim.ctl("load", version=VERSION, flavour="open")
    node.wait(GPU, 1)  # the other one is back
    unchanged(node.resources, {GPU: 1}, node.looks)


def test_a_storm_of_xids_is_a_few_lines(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    director, before = Client(str(node.sim.socket)), node.logged().count("\n")
    for _event in range(1000):
        director.ask("xid", gpu="0", number=31)
    director.ask("xid", gpu="1", number=62)
    director.close()
    node.wait(GPU, 1)
    assert node.health(GPU)[node.uuids()[0]] == "Healthy"

    def told() -> list[int]:
        lines = [line for line in node.logged().splitlines() if " xid=31 " in line]
        return [int(line.rpartition("times=")[2] if "times=" in line else 1) for line in lines]

    eventually(lambda: sum(told()) == 1000)  # none is lost, and they are told together
    assert len(told()) < 100
    assert node.logged().count("\n") - before <= len(told()) + 10


def test_a_defect_from_before_the_daemons_time_is_known(make_node: MakeNode) -> None:
    node = make_node(2)
    node.sim.ctl("wear", gpu="1", on="on")
    node.serve(1)
    worn = node.uuids()[1]
    eventually(lambda: GPU in node.status()["resources"])
    assert node.problems(GPU) == {
        worn: "a memory row could not be replaced. Verdict: replace. Way back: another GPU in its place:"
        " no reset repairs it"
    }


def test_a_fault_outlives_the_daemon_and_not_the_drivers_load(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    node.kill()
    node.start_daemon()
    node.wait(GPU, 1)
    assert node.health(GPU)[node.uuids()[1]] == "Unhealthy"
    assert node.logged().count("xid=48") == 1
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    node.sim.ctl("load", version=VERSION, flavour="open")
    node.wait(GPU, 2)


def test_what_a_gpu_tells_of_its_memory(make_node: MakeNode) -> None:
    node = make_node(2, driver=WITH_RECOVERY)
    node.serve(2)
    node.sim.ctl("ecc", gpu="0", errors=1, pending="on")  # a row is replaced at the next reset
    eventually(lambda: "replaces a memory row" in node.logged())
    unchanged(node.resources, {GPU: 2}, node.looks)
    assert node.logged().count("replaces a memory row at its next reset") == 1
    node.sim.ctl("recovery", gpu="1", action=1)
    node.wait(GPU, 1)
    problems = eventually(lambda: node.problems(GPU))
    (problem,) = problems.values()
    asks = "the driver asks for a reset of the GPU (recovery action 1). Verdict: reset. Way back: "
    assert problem.startswith(asks)
    node.sim.ctl("reset", gpu="1")
    node.wait(GPU, 2)


def test_an_old_gpu_with_memory_errors_wants_a_reset(make_node: MakeNode) -> None:
    node = make_node(1, product="t4")
    node.serve(1)
    node.sim.ctl("ecc", gpu="0", errors=2)
    node.wait(GPU, 0)
    node.sim.ctl("reset", gpu="0")
    node.wait(GPU, 1)


def test_a_product_that_tells_nothing_of_itself_is_fine(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1)
    for code in (3, 13, 999):
        for name in ("GetRemappedRows", "GetTotalEccErrors", "GetFieldValues"):
            node.sim.ctl("fault", gpu="all", function=f"nvmlDevice{name}", code=code)
        unchanged(node.resources, {GPU: 1}, node.looks)
        node.sim.ctl("clear-faults")


def test_events_that_can_not_be_had_make_no_gpu_unfit(make_node: MakeNode) -> None:
    node = make_node(2)

    def told() -> tuple[int, dict[str, int]]:
        return node.logged().count("events of a GPU are not available"), node.resources()

    node.sim.ctl("fault", gpu="all", function="nvmlDeviceRegisterEvents", code=3)
    node.serve(2)
    unchanged(told, (0, {GPU: 2}), node.looks)  # a product that has none
    node.sim.ctl("clear-faults")
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceRegisterEvents", code=999)
    h.open_again(node)
    eventually(told, (2, {GPU: 2}))
    unchanged(told, (2, {GPU: 2}), node.looks)


def events(node: Node) -> str | None:
    """Return why XIDs are not heard, if so."""
    found: str | None = node.status()["chores"].get("events", "")
    return found


def test_waiting_for_events_that_fails_is_said_once_and_tried_again(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1)
    node.sim.ctl("fault", gpu="all", function="nvmlEventSetWait_v2", code=999)
    eventually(lambda: events(node))
    unchanged(
        lambda: (node.logged().count("waiting for events failed"), node.resources()),
        (1, {GPU: 1}),
        node.looks,
        5,
    )
    node.sim.ctl("clear-faults")
    eventually(lambda: events(node) is None)
    node.sim.ctl("xid", gpu="0", number=79)
    node.wait(GPU, 0)
