# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process that labels a node beside an API server: what it costs, and what it does where that fails."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpu_plugin.tools.state import StateFile

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Start


def test_the_label_process_stays_small_through_thousands_of_events(labeller: Start) -> None:
    one = labeller(2)
    one.api.merge({"status": {"images": [{"names": ["x" * 64] * 4} for _each in range(200)]}})
    for _each in range(2):  # the first has what it loads compiled
        one.start("flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}")
        one.wait(gpu_count="2")
        started = one.processor_seconds()
        eventually(lambda: one.api.counted("WATCH"))
        if not _each:
            assert one.end() == 0
            one.api.requests.clear()
            one.api.set(nvidia_com__gpu_count=None)
    before = one.resident()
    for number in range(3000):
        one.api.merge({"status": {"phase": str(number)}})
        if number % 5 == 0:
            one.api.set(example_com__number=str(number))
        if number % 100 == 0:
            one.api.end()
        time.sleep(0.001)
    one.api.set(nvidia_com__gpu_count="7")
    one.wait(gpu_count="2")
    print(f"labels: {before:.1f} MiB, then {one.resident():.1f} MiB; {started:.2f} s to label")
    assert one.resident() < 60
    assert one.resident() - before < 2
    assert started < 0.8  # of a processor, with NVML and two looks at the GPUs


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
    time.sleep(3)
    found = one.api.own()
    assert (found["nvidia.com/gpu.replicas"], found["nvidia.com/mps.capable"]) == ("1", "false")
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


def test_a_node_feature_object_that_goes_comes_again(labeller: Start) -> None:
    one = labeller(1)
    one.start(FAST, "--label-output", "node-feature", "--namespace", "gpus")
    eventually(lambda: one.api.features)
    before = list(one.api.features.values())
    assert before[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    one.api.objects.clear()
    eventually(lambda: one.api.features)
    assert one.api.own() == {}


UNFIT = {"gpu": "GPU-1", "index": "1", "gi": None, "ci": None, "kind": "fault", "reason": "XID 79"}
UNFIT |= {"since": 1_700_000_000, "way_back": "a reset of the GPU or another load of the driver"}


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
    assert event["message"].startswith("GPU 1 (GPU-1): XID 79. Way back: a reset of the GPU")
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "False")
    assert one.end() == 0
    one.start(FAST, "--node-condition=true")
    eventually(lambda: one.state()["state"] == "labelled")
    time.sleep(3)
    assert len(one.api.events) == 1
    assert one.api.events[0]["count"] == 1
    assert one.end() == 0
    assert one.once(FAST, "--remove").returncode == 0
    assert set(one.api.conditions()) == {"Ready"}


def test_events_that_may_not_be_written_leave_labels_as_they_are(labeller: Start) -> None:
    one = labeller(2)
    one.api.allows = lambda _method, path: "/events" not in path
    StateFile(one.node.status_file, pid=os.getpid()).write({"health": [UNFIT]})
    one.start(FAST)
    eventually(lambda: "events" in one.state().get("problems", {}))
    one.wait(gpu_count="2")
    eventually(lambda: one.state()["state"] == "labelled")
    assert one.state()["problem"] is None
    assert one.node.logged().count("events: trying again") == 1


def test_events_can_be_left_out(labeller: Start) -> None:
    one = labeller(2)
    StateFile(one.node.status_file, pid=os.getpid()).write({"health": [UNFIT]})
    one.start(FAST, GPU_NODE_EVENTS="false")
    one.wait(gpu_count="2")
    time.sleep(3)
    assert one.api.counted("POST") == 0
    assert set(one.api.conditions()) == {"Ready"}


def test_a_condition_without_labels(labeller: Start) -> None:
    one = labeller(2)
    StateFile(one.node.status_file, pid=os.getpid()).write({"state": "serving", "health": [UNFIT]})
    one.start(FAST, "--label-output=off", "--node-condition=true")
    eventually(lambda: one.api.conditions().get("GPUHealthy", {}).get("status") == "False")
    assert (one.api.own(), one.api.events) == ({}, [])


def test_a_status_file_that_cannot_be_written_ends_nothing(labeller: Start) -> None:
    """Finding H4, in the process that labels."""
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
    one.api.delays = {"GET": 2.0, "PATCH": 2.0, "WATCH": 2.0}
    one.start(FAST)
    one.wait(gpu_count="1")
    eventually(lambda: one.state()["state"] == "labelled")
    assert one.state()["problem"] is None


def test_an_xid_becomes_an_event_and_its_end_another(labeller: Start) -> None:
    """All the way: the driver, the plugin that judges it, and the process that tells the cluster."""
    one = labeller(2)
    one.node.start_daemon(FAST, "--recovery-period=15")
    eventually(lambda: one.node.status()["state"] == "serving")
    one.start(FAST, "--node-condition=true")
    eventually(lambda: one.api.conditions().get("GPUHealthy", {}).get("status") == "True")
    one.node.sim.ctl("xid", gpu="1", number=94)
    eventually(lambda: one.api.events)
    (sick,) = one.api.events
    assert sick["reason"] == "GPUUnhealthy"
    assert "XID 94" in sick["message"]
    assert "Way back: " in sick["message"]
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "False")
    eventually(lambda: len(one.api.events) == 2)
    assert one.api.events[1]["reason"] == "GPUHealthy"
    eventually(lambda: one.api.conditions()["GPUHealthy"]["status"] == "True")
