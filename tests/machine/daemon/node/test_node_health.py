# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of GPUs, from the driver's word to the kubelet's list and back."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
VERSION = "550.163.01"


def test_a_fault_that_the_gpu_coped_with_passes_by_itself(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="0", number=94)
    node.wait(GPU, 1)
    node.wait(GPU, 2)
    assert "XID 94 (a memory error that only one application felt)" in node.logged()
    assert "device is healthy again" in node.logged()


def test_the_state_names_what_is_unfit(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    began = int(time.time())
    node.sim.ctl("xid", gpu="1", number=48)
    (one,) = eventually(lambda: node.status()["health"])
    assert began <= one.pop("since") <= time.time()
    uuid = node.sim.ctl("status")["gpus"][1]["uuid"]
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
    }


def test_an_xid_of_a_changed_recovery_action_makes_the_driver_be_asked(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    node.sim.ctl("recovery", gpu="1", action=0)
    node.start_kubelet()
    node.start_daemon("", "--rescan", "600")
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="0", number=154)  # it says of itself nothing of the GPU
    node.sim.ctl("xid", gpu="0", number=137)
    node.sim.ctl("recovery", gpu="1", action=1)
    node.sim.ctl("xid", gpu="1", number=154)
    (one,) = eventually(lambda: node.status().get("health"))
    assert (one["index"], one["reason"]) == ("1", "the driver asks for a reset of the GPU")
    node.wait(GPU, 1)


def test_a_fault_of_a_mig_instance_leaves_the_others(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "1g.10gb", "1g.10gb", "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}", "--recovery-period", "600")
    node.wait(MIG, 3)
    hit = node.sim.ctl("status")["gpus"][0]["mig_devices"][1]
    node.sim.ctl("xid", gpu="0", number=94, gi=hit["gi"], ci=hit["ci"])
    node.wait(MIG, 2)
    assert node.health(MIG)[hit["uuid"]] == "Unhealthy"
    node.sim.ctl("xid", gpu="0", number=95, gi=hit["gi"], ci=hit["ci"])
    node.wait(MIG, 0)


@pytest.mark.parametrize(
    ("env", "number", "healthy"),
    [
        ({"DP_DISABLE_HEALTHCHECKS": "all"}, 79, 1),
        ({"DP_DISABLE_HEALTHCHECKS": "xids", "DP_ENABLE_HEALTHCHECKS": "79"}, 79, 0),
    ],
)
def test_nvidias_variables(
    make_node: MakeNode, env: dict[str, str], number: int, healthy: int
) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon("", **env)
    node.wait(GPU, 1)
    node.sim.ctl("xid", gpu="0", number=number)
    eventually(lambda: f"xid={number}" in node.logged())
    assert node.wait(GPU, healthy)["allocatable"] == healthy


def test_a_loaded_driver_alone_does_not_bring_a_gpu_back_at_once(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon("", "--recovery-period", "3")
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    node.sim.ctl("load", version=VERSION, flavour="open")
    node.wait(GPU, 1)  # the other one is back
    node.wait(GPU, 2)


def test_a_storm_of_xids_is_a_few_lines(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    before, began = node.logged().count("\n"), time.monotonic()
    for _event in range(1000):
        node.sim.ctl("xid", gpu="0", number=31)
    node.sim.ctl("xid", gpu="1", number=62)
    node.wait(GPU, 1)
    assert node.health(GPU)[node.sim.ctl("status")["gpus"][0]["uuid"]] == "Healthy"

    def told() -> list[int]:
        lines = [line for line in node.logged().splitlines() if " xid=31 " in line]
        return [int(line.rpartition("times=")[2] if "times=" in line else 1) for line in lines]

    eventually(lambda: sum(told()) == 1000)  # none is lost, and they are told together
    assert len(told()) <= 2 + (time.monotonic() - began) / 5.0
    assert node.logged().count("\n") - before <= len(told()) + 10


def test_a_defect_from_before_the_daemons_time_is_known(make_node: MakeNode) -> None:
    node = make_node(2)
    node.sim.ctl("wear", gpu="1", on="on")
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    worn = node.sim.ctl("status")["gpus"][1]["uuid"]
    eventually(lambda: GPU in node.status()["resources"])
    assert node.status()["resources"][GPU]["problems"] == {
        worn: "XID 64 (a memory row could not be replaced). Way back: another GPU in its place:"
        " no reset repairs it"
    }


def test_a_fault_outlives_the_daemon_and_not_the_drivers_load(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("xid", gpu="1", number=48)
    node.wait(GPU, 1)
    node.signal(signal.SIGKILL)
    node.ended()
    node.start_daemon()
    node.wait(GPU, 1)
    assert node.health(GPU)[node.sim.ctl("status")["gpus"][1]["uuid"]] == "Unhealthy"
    assert node.logged().count("xid=48") == 1
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    node.sim.ctl("load", version=VERSION, flavour="open")
    node.wait(GPU, 2)


def test_what_a_gpu_tells_of_its_memory(make_node: MakeNode) -> None:
    node = make_node(2)
    node.sim.ctl("recovery", gpu="1", action=0)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    node.sim.ctl("ecc", gpu="0", errors=1, pending="on")  # a row is replaced at the next reset
    node.wait(GPU, 1)
    node.wait(GPU, 2)
    assert "1 memory errors since its last reset" in node.logged()
    assert node.logged().count("replaces a memory row at its next reset") == 1
    node.sim.ctl("recovery", gpu="1", action=1)
    node.wait(GPU, 1)
    problems = eventually(lambda: node.status()["resources"][GPU]["problems"])
    (problem,) = problems.values()
    assert problem.startswith("the driver asks for a reset of the GPU. Way back: ")
    node.sim.ctl("reset", gpu="1")
    node.wait(GPU, 2)


def test_an_old_gpu_with_memory_errors_wants_a_reset(make_node: MakeNode) -> None:
    node = make_node(1, product="t4")
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    node.sim.ctl("ecc", gpu="0", errors=2)
    node.wait(GPU, 0)
    node.sim.ctl("reset", gpu="0")
    node.wait(GPU, 1)


@pytest.mark.parametrize("code", [3, 13, 999])
def test_a_product_that_tells_nothing_of_itself_is_fine(make_node: MakeNode, code: int) -> None:
    node = make_node(1)
    for name in ("GetRemappedRows", "GetTotalEccErrors", "GetFieldValues"):
        node.sim.ctl("fault", gpu="all", function=f"nvmlDevice{name}", code=code)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    assert set(node.health(GPU).values()) == {"Healthy"}


@pytest.mark.parametrize(("code", "lines"), [(3, 0), (999, 2)])
def test_events_that_can_not_be_had_make_no_gpu_unfit(
    make_node: MakeNode, code: int, lines: int
) -> None:
    node = make_node(2)
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceRegisterEvents", code=code)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    time.sleep(1.5)
    assert set(node.health(GPU).values()) == {"Healthy"}
    assert node.logged().count("events of a GPU are not available") == lines


def test_waiting_for_events_that_fails_is_said_once_and_tried_again(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    node.sim.ctl("fault", gpu="all", function="nvmlEventSetWait_v2", code=999)
    eventually(lambda: "waiting for events failed" in node.logged())
    time.sleep(2)
    assert node.logged().count("waiting for events failed") == 1
    assert set(node.health(GPU).values()) == {"Healthy"}
    node.sim.ctl("clear-faults")
    time.sleep(1)
    node.sim.ctl("xid", gpu="0", number=79)
    node.wait(GPU, 0)
