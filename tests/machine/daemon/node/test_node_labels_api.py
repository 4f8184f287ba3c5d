# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process that labels a node beside an API server: what it costs, and what it does where that fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._node.gate import PATH, Gate, Held, dump_gate
from gpu_plugin._shared._node.machine.facts import BOOT_ID
from gpu_plugin.tools.files import StateFile

from tests.support.growth import check, watch
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Labeller, Start

BOOT = Path(BOOT_ID).read_text().strip()
OPEN = Gate(BOOT, open_gpus=("GPU-0", "GPU-1"))
CLOSED = Gate(BOOT, gpus={"GPU-0": Held("not accepted: it was never tested")})


@pytest.mark.endurance
def test_the_label_process_stays_small_through_thousands_of_events(labeller: Start) -> None:
    one = labeller(2)
    one.api.merge({"status": {"images": [{"names": ["x" * 64] * 4} for _each in range(200)]}})
    one.start(FAST)
    one.wait(gpu_count="2")
    eventually(lambda: one.api.counted("WATCH"))
    assert one.process is not None

    def events() -> None:
        for number in range(500):
            one.api.merge({"status": {"phase": str(number)}})
            if number % 5 == 0:
                one.api.set(example_com__number=str(number))
            if number % 100 == 0:
                one.api.end()
        one.api.set(nvidia_com__gpu_count="7")
        one.wait(gpu_count="2")

    check(watch(one.process.pid, events), 500, budget=256)


MANY = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 50}]}}\n"
FAST = "flags: {gfd: {sleepInterval: 1s, noTimestamp: true}}\n"


def test_labels_do_not_claim_what_the_plugin_refuses(labeller: Start) -> None:
    """An H100 has 48 clients of MPS at most, which only who knows the node can tell."""
    one = labeller(1)
    one.node.start_daemon(FAST)
    eventually(lambda: one.node.status()["state"] == "serving")
    one.start(FAST)
    one.wait(gpu_replicas="1", mps_capable="false")
    one.node.config.write_text(FAST + MANY)
    eventually(lambda: one.node.status()["config_problem"])
    eventually(lambda: "50 shares" in (one.state()["problem"] or ""))
    one.node.config.write_text(FAST + MANY + "# still\n")

    def labelled() -> tuple[str, str]:
        found = one.api.own()
        return found["nvidia.com/gpu.replicas"], found["nvidia.com/mps.capable"]

    unchanged(labelled, ("1", "false"), one.looks)
    one.node.config.write_text(FAST + MANY.replace("mps", "timeSlicing"))
    one.wait(gpu_replicas="50")
    eventually(lambda: one.state()["problem"] is None)


def test_a_bad_configuration_at_the_start_is_waited_for(labeller: Start) -> None:
    one = labeller(1)
    one.start("flagz: {}")
    eventually(lambda: "unknown key flagz" in (one.state()["problem"] or ""))
    assert one.state()["state"] == "waiting"
    assert one.api.own() == {}
    one.node.config.write_text(FAST)
    one.wait(gpu_count="1")
    done = one.once("flagz: {}", "--once")
    assert done.returncode == 1
    assert "unknown key flagz" in done.stderr


UNFIT = {"gpu": "GPU-1", "index": "1", "gi": None, "ci": None, "kind": "fault", "reason": "XID 79"}
UNFIT |= {"since": 1_700_000_000, "verdict": "reboot", "way_back": "a reboot of the node"}


@pytest.mark.long
def test_a_gpu_that_turns_sick_becomes_an_event_and_a_condition(labeller: Start) -> None:
    one = labeller(2)
    plugin = StateFile(one.node.status_file, pid=os.getpid())  # as the plugin's, while this runs
    plugin.write({"state": "serving", "health": []})
    one.start(FAST, "--node-condition=true")
    eventually(lambda: one.api.conditions().get("GPUHealthy", {}).get("status") == "True")
    assert one.api.events == []
    plugin.write({"state": "serving", "health": [UNFIT]})
    eventually(lambda: one.api.events)
    (event,) = one.api.events
    assert (event["reason"], event["type"]) == ("GPUUnhealthy", "Warning")
    assert event["message"].startswith("GPU 1 (GPU-1): XID 79. Verdict: reboot. Way back: a reboot")
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "False")
    assert one.end() == 0
    one.start(FAST, "--node-condition=true")
    eventually(lambda: one.state()["state"] == "labelled")
    unchanged(lambda: [event["count"] for event in one.api.events], [1], one.looks)
    assert one.end() == 0
    assert one.once(FAST, "--remove").returncode == 0
    assert set(one.api.conditions()) == {"Ready"}


def test_events_that_may_not_be_written_leave_labels_as_they_are(labeller: Start) -> None:
    one = labeller(2)
    one.api.allows = lambda _verb, resource: resource != "events"
    StateFile(one.node.status_file, pid=os.getpid()).write({"health": [UNFIT]})
    one.start(FAST)
    eventually(lambda: "events" in one.state().get("problems", {}))
    one.wait(gpu_count="2")
    eventually(lambda: one.state()["state"] == "labelled")
    assert one.state()["problem"] is None
    assert one.node.logged().count("events: trying again") == 1


@pytest.mark.long
def test_events_can_be_left_out(labeller: Start) -> None:
    one = labeller(2)
    StateFile(one.node.status_file, pid=os.getpid()).write({"health": [UNFIT]})
    one.start(FAST, GPU_NODE_EVENTS="false")
    one.wait(gpu_count="2")
    unchanged(lambda: one.api.counted("POST"), 0, one.looks)
    assert set(one.api.conditions()) == {"Ready"}


def test_a_condition_without_labels(labeller: Start) -> None:
    one = labeller(2)
    StateFile(one.node.status_file, pid=os.getpid()).write({"state": "serving", "health": [UNFIT]})
    one.start(FAST, "--label-output=off", "--node-condition=true")
    eventually(lambda: one.api.conditions().get("GPUHealthy", {}).get("status") == "False")
    assert (one.api.own(), one.api.events) == ({}, [])


def put_gate(one: Labeller, text: str) -> None:
    """Write the node's gate, as gpu.node.accept does."""
    path = one.node.sim.root / PATH.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def accepted(one: Labeller) -> tuple[str, str]:
    """Return status and reason of the node's condition about its gate."""
    condition = one.api.conditions().get("gpu.node/Accepted", {})
    return condition.get("status", ""), condition.get("reason", "")


def test_gate_is_a_condition_through_kills_until_it_is_removed(labeller: Start) -> None:
    one = labeller(2)
    one.start(FAST)
    one.wait(gpu_count="2")
    assert set(one.api.conditions()) == {"Ready"}
    put_gate(one, dump_gate(CLOSED))
    eventually(lambda: accepted(one), ("False", "NotAccepted"))
    for gate, status, reason in (
        (OPEN, "True", "Accepted"),
        (OPEN._replace(boot="of another boot"), "Unknown", "NotChecked"),
        (CLOSED, "False", "NotAccepted"),
    ):
        assert one.process is not None
        one.process.kill()
        put_gate(one, dump_gate(gate))
        one.start(FAST)
        eventually(lambda expected=(status, reason): accepted(one) == expected)
    (one.node.sim.root / PATH.lstrip("/")).unlink()
    eventually(lambda: set(one.api.conditions()) == {"Ready"})


def test_condition_of_a_gate_goes_with_the_labels(labeller: Start) -> None:
    one = labeller(2)
    put_gate(one, dump_gate(CLOSED))
    one.start(FAST)
    eventually(lambda: accepted(one), ("False", "NotAccepted"))
    assert one.end() == 0
    assert one.once(FAST, "--remove").returncode == 0
    assert set(one.api.conditions()) == {"Ready"}


@pytest.mark.parametrize("text", ["", "{", '{"version": 9}'])
def test_gate_that_is_damaged_is_one_that_was_not_checked(labeller: Start, text: str) -> None:
    one = labeller(2)
    put_gate(one, text)
    one.start(FAST)
    eventually(lambda: accepted(one), ("Unknown", "NotChecked"))
    eventually(lambda: "gate.json" in one.state().get("problems", {}).get("gate", ""))


def test_a_status_file_that_cannot_be_written_ends_nothing(labeller: Start) -> None:
    one = labeller(1)
    one.status.parent.write_text("")  # no folder, so nothing can be written below it
    one.start(FAST)
    one.wait(gpu_count="1")
    one.api.set(nvidia_com__gpu_count="7")
    one.wait(gpu_count="1")
    assert one.node.logged().count("the status file can't be written") == 1
    assert one.end() == 0


def test_a_slow_api_delays_labels_and_ends_nothing(labeller: Start) -> None:
    one = labeller(1)
    one.api.delays = {"GET": 0.5, "PATCH": 0.5, "WATCH": 0.5}
    one.start(FAST)
    one.wait(gpu_count="1")
    eventually(lambda: one.state()["state"] == "labelled")
    assert one.state()["problem"] is None


@pytest.mark.long
def test_an_xid_becomes_an_event_and_its_end_another(labeller: Start) -> None:
    """All the way: the driver, the plugin that judges it, and the process that tells the cluster."""
    one = labeller(2)
    one.node.start_daemon(FAST)
    eventually(lambda: one.node.status()["state"] == "serving")
    one.start(FAST, "--node-condition=true")
    eventually(lambda: one.api.conditions().get("GPUHealthy", {}).get("status") == "True")
    one.node.sim.ctl("xid", gpu="1", number=48)
    eventually(lambda: one.api.events)
    (sick,) = one.api.events
    assert sick["reason"] == "GPUUnhealthy"
    assert "XID 48" in sick["message"]
    assert "Way back: " in sick["message"]
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "False")
    cleared = one.node.cli("health", "--status-file", one.node.status_file, "clear", "1")
    assert cleared.returncode == 0, cleared.stderr
    eventually(lambda: len(one.api.events) == 2)
    assert one.api.events[1]["reason"] == "GPUHealthy"
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "True")
