# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repair reads a simulated driver and a kernel's log, says what comes next, and keeps its cases on the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from nvsim.testing import start

from tests.fakes.repair.repair_node import Node

ME, OTHER = "ops on ctl-1, process 7", "ops on ctl-2, process 9"
QUARANTINE = "/var/lib/gpu-node/quarantine.json"
RECORDED = "/var/lib/gpu-node/gpus.json"


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node with two H100s and a driver that tells of its recovery action."""
    with start("h100-80", 2, driver="580.178.04") as sim:
        yield Node(sim)


def gpu(node: Node, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = node.sim.ctl("status")["gpus"][number]
    return found


def only(found: dict[str, Any]) -> dict[str, Any]:
    (one,) = (each for each in found["gpus"] if each["next"] != "nothing")
    assert isinstance(one, dict)
    return one


def xid(one: dict[str, Any], number: int, more: str = "pid=4711, name=python3") -> str:
    return f"NVRM: Xid (PCI:{one['pci'][:-2]}): {number}, {more}"


@pytest.mark.parametrize("instance", ["", " GPU-I:05", " GPU-I:05 GPU-CI:00"])
@pytest.mark.parametrize(
    ("number", "times", "verdict"),
    [(94, 4, "drain_then_reset"), (95, 1, "reset"), (109, 1, "reset"), (119, 1, "reset")],
)
def test_an_xid_of_a_mig_instance_is_one_of_its_gpu(
    instance: str, number: int, times: int, verdict: str
) -> None:
    with start("h100-80", 1, driver="550.163.01") as sim:
        node = Node(sim)
        sick = gpu(node)
        line = xid(sick, number).replace("):", f"{instance}):", 1)
        node.logs(*[line] * times)
        answer = node.module()
        assert only(answer)["verdict"] == verdict
        assert instance.strip() in answer["lines"][0]
        assert not answer["warnings"]


@pytest.mark.parametrize(
    "line", ["NVRM: Xid (GPU 3): 79, GPU has fallen off", "NVRM: Xid (PCI:0000:18:00 GPU-I:05: 94"]
)
def test_a_line_about_an_xid_that_cannot_be_read_is_a_warning(node: Node, line: str) -> None:
    node.logs(line)
    (warning,) = node.module()["warnings"]
    assert warning.startswith("1 line of the kernel's log about XIDs or SXIDs could not be read")
    assert line in warning


def test_a_line_without_a_time_is_a_warning(node: Node) -> None:
    node.told["log"] = f"{xid(gpu(node), 79)}\n"
    (warning,) = node.module()["warnings"]
    assert "NVRM: Xid (PCI:" in warning


def set_aside(node: Node, one: dict[str, Any], by: str) -> None:
    entry = {"by": by, "reason": "it failed", "ticket": "", "since": "2027-01-15T08:00:00Z"}
    entry |= {"serial": one["serial"], "pci": one["pci"]}
    told = {"version": 1, "gpus": {one["uuid"]: entry}, "node": None}
    node.told["files"][QUARANTINE] = json.dumps(told)


def test_a_node_of_which_nothing_is_wrong_is_left_alone(node: Node) -> None:
    found = node.module()
    assert (found["next"], found["lines"], found["problem"], found["changed"]) == (
        "nothing",
        [],
        "",
        False,
    )
    assert [(one["index"], one["uuid"], one["pci"]) for one in found["gpus"]] == [
        (at, gpu(node, at)["uuid"], gpu(node, at)["pci"]) for at in (0, 1)
    ]
    assert not node.told["files"]


def test_a_gpu_that_wants_a_reset_is_planned_and_its_case_kept(node: Node) -> None:
    sick = gpu(node)
    node.sim.ctl("lose", gpu="0", how="reset_required")
    found = node.module()
    one = only(found)
    assert (one["uuid"], one["verdict"], one["next"]) == (sick["uuid"], "reset", "reset")
    assert found["work"]["reset"] == [sick["uuid"]]
    assert "NVML says that the GPU needs a reset" in found["lines"][0]
    assert not node.told["files"]

    assert node.module(state="planned", holder=ME, check=True)["changed"]
    assert not node.told["files"]
    planned = node.module(state="planned", holder=ME)
    assert planned["in_repair"] == [sick["uuid"]]
    assert planned["lease"]["holder"] == ME
    assert node.module()["held"].startswith(f"{ME} repairs the node since")
    assert "repairs the node since" in node.module(state="planned", holder=OTHER)["msg"]
    assert not node.module(state="planned", holder=ME, give_back=True)["held"]


def test_a_repair_ends_where_the_gpu_is_proved(node: Node) -> None:
    sick = gpu(node)["uuid"]
    node.sim.ctl("recovery", gpu="0", action=1)
    node.logs(xid(gpu(node), 95))
    node.module(state="planned", holder=ME)
    stages = [{"state": one} for one in ("evidence", "fenced", "stopped")]
    stages += [{"state": "reset", "action": "reset"}]
    for one in stages:
        assert node.module(gpus=[sick], holder=ME, **one)["changed"]
    unproved = node.module(state="proved", gpus=[sick], holder=ME)
    assert "is not given back: it still has a fault: the driver asks for a reset" in unproved["msg"]

    node.sim.ctl("reset", gpu="0")
    node.told["now"] += 30
    node.module(state="reset", gpus=[sick], holder=ME, result="done")
    node.module(state="restored", gpus=[sick], holder=ME)
    node.module(state="proved", gpus=[sick], holder=ME)
    ended = node.module(state="released", gpus=[sick], holder=ME, give_back=True)
    assert (ended["in_repair"], ended["lease"]) == ([], {})
    assert node.module()["next"] == "nothing"


def test_a_fault_that_comes_back_asks_for_more(node: Node) -> None:
    sick = gpu(node)["uuid"]
    for wanted in ("reset", "reboot", "replace"):
        node.sim.ctl("recovery", gpu="0", action=1)
        found = node.module(state="planned", holder=ME, reboot="when_needed")
        assert only(found)["verdict"] == wanted
        if wanted == "replace":
            assert only(found)["next"] == "wait"
            break
        node.module(state="reset", gpus=[sick], holder=ME, action=wanted)
        node.module(state="reset", gpus=[sick], holder=ME, result="done")
        node.sim.ctl("recovery", gpu="0", action=0)
        for state in ("restored", "proved", "released"):
            node.module(state=state, gpus=[sick], holder=ME)
        node.told["now"] += 600


def test_xids_count_since_the_last_reset_and_within_the_window(node: Node) -> None:
    node.logs(xid(gpu(node), 79, "GPU has fallen off the bus."))
    one = only(node.module())
    assert (one["verdict"], one["next"]) == ("reboot", "wait")
    assert "repair_reboot=when_needed" in one["next_step"]
    assert only(node.module(reboot="when_needed"))["next"] == "reboot"
    assert node.module(window=30)["next"] == "nothing"


def test_a_switch_with_a_fatal_error_is_told_of_its_node(node: Node) -> None:
    node.logs(
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 27 sourcetrack timeout"
    )
    found = node.module()
    assert (found["next"], found["lines"][0]) == (
        "nothing",
        "the node: ask: SXID 24007 of an NVSwitch, fatal, and it is not known whether of a trunk port",
    )


def test_the_drivers_word_goes_before_the_list(node: Node) -> None:
    node.logs(xid(gpu(node), 48))
    assert node.module()["next"] == "nothing"
    assert (
        only(node.module(xids={"as_of": "2027-01-01", "xids": {48: {"action": "replace"}}}))[
            "verdict"
        ]
        == "replace"
    )


def test_a_gpu_that_is_lost_keeps_its_name(node: Node) -> None:
    node.sim.ctl("lose", gpu="1")
    one = only(node.module())
    assert (one["uuid"], one["verdict"]) == (gpu(node, 1)["uuid"], "reboot")
    assert one["reasons"] == ["NVML says that the GPU is lost"]


def test_a_gpu_that_hangs_keeps_no_run_from_its_end(node: Node) -> None:
    node.told["hung"] = 2.0
    node.sim.ctl("hang", function="nvmlDeviceGetFieldValues", gpu="1")
    one = only(node.module())
    assert one["uuid"] == gpu(node, 1)["uuid"]
    assert one["reasons"] == ["the driver does not answer for the GPU"]


def test_a_gpu_that_is_not_on_the_bus_any_more_is_told_by_its_case(node: Node) -> None:
    dead = gpu(node, 1)
    addresses = [gpu(node, at)["pci"] for at in (0, 1)]
    node.told["files"][RECORDED] = json.dumps({"machine": "", "gpus": addresses})
    node.sim.ctl("lose", gpu="1")
    node.module(state="planned", holder=ME)
    node.sim.ctl("die", gpu="1")
    node.sim.ctl("reboot")
    node.told["boot"] = "boot-2"
    one = only(node.module())
    assert (one["uuid"], one["present"], one["verdict"]) == (dead["uuid"], False, "reboot")
    node.told["files"].pop("/var/lib/gpu-node/repair.json")
    nameless = only(node.module())
    assert (nameless["uuid"], nameless["verdict"]) == (dead["pci"], "reboot")


def test_what_an_operator_has_set_aside_is_left_alone(node: Node) -> None:
    node.sim.ctl("lose", gpu="0", how="reset_required")
    set_aside(node, gpu(node), "operator")
    one = only(node.module())
    assert (one["next"], one["set_aside_by"]) == ("wait", "operator")
    assert node.module(state="planned", holder=ME)["in_repair"] == []


def test_a_gpu_that_was_set_aside_by_a_run_and_is_well_is_proved(node: Node) -> None:
    set_aside(node, gpu(node), "repair")
    found = node.module(state="planned", holder=ME)
    assert (found["next"], found["in_repair"]) == ("prove", [gpu(node)["uuid"]])


def test_a_clock_that_was_set_back_starts_nothing(node: Node) -> None:
    node.sim.ctl("lose", gpu="0", how="reset_required")
    node.module(state="planned", holder=ME, give_back=True)
    node.told["now"] -= 7200
    assert "clock is 7200 s behind" in node.module()["refused"]
    assert "clock is 7200 s behind" in node.module(state="planned", holder=ME)["msg"]


def test_a_driver_that_was_loaded_again_makes_the_plan_stale(node: Node) -> None:
    node.sim.ctl("lose", gpu="0", how="reset_required")
    node.module(state="planned", holder=ME)
    node.told["load"] = 2
    refused = node.module(state="stopped", gpus=[gpu(node)["uuid"]], holder=ME)
    assert "started again since its repair was planned" in refused["msg"]


@pytest.mark.parametrize(
    ("verb", "text"),
    [("passthrough", "is reset with its virtual machine"), ("vgpu", "who runs its host can")],
)
def test_a_virtual_machine_does_not_reset_its_gpu(node: Node, verb: str, text: str) -> None:
    node.sim.ctl(verb, on="on")
    node.sim.ctl("recovery", gpu="0", action=1)
    one = only(node.module())
    assert one["next"] == "wait"
    assert any(text in reason for reason in one["reasons"])


def test_without_a_driver_nothing_is_judged() -> None:
    with start("h100-80", 1, driver=None) as sim:
        found = Node(sim).module()
    assert (found["next"], found["problem"]) == ("nothing", "no driver of NVIDIA's is loaded")


def test_a_fabric_manager_that_was_started_again_has_blackwell_reset() -> None:
    with start("b200", 2, driver="580.178.04") as sim:
        node = Node(sim)
        again = {"ActiveState": "active", "InactiveEnterTimestampMonotonic": 5_000_000_000}
        node.told["fabric"] = {**again, "ActiveEnterTimestampMonotonic": 6_000_000_000}
        found = node.module()
        assert sorted(found["work"]["reset"]) == sorted(gpu(node, at)["uuid"] for at in (0, 1))
        node.told["fabric"] = {"ActiveState": "active", "ActiveEnterTimestampMonotonic": 6_000_000}
        assert node.module()["next"] == "nothing"


def test_bad_options_are_refused_by_name(node: Node) -> None:
    assert "window: 0 is not valid" in node.module(window=0)["msg"]
    assert "holder: '' is not valid" in node.module(state="planned")["msg"]
    assert "gpus: [] is not valid" in node.module(state="fenced", holder=ME)["msg"]
    assert (
        "action: 'reset' is not valid"
        in node.module(state="fenced", holder=ME, gpus=["x"], action="reset")["msg"]
    )
    assert (
        "xids.xids.79.action"
        in node.module(xids={"as_of": "2027-01-01", "xids": {79: {"action": "x"}}})["msg"]
    )


def test_a100s_whose_nvlinks_lead_to_switches_are_judged_as_their_reset_judges_them() -> None:
    with start("a100-40", 2) as sim:
        there = Node(sim)
        sim.ctl("lose", gpu="0", how="reset_required")
        found = there.module()
    assert only(found)["verdict"] == "reset_all"
    assert "the fabric manager does not run" in found["lines"][0]
    assert len(found["work"]["with_them"]) == 1
