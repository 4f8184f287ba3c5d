# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process that labels a node beside an API server: what it costs, and what it does where that fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually

from labelling import LATE  # noqa: E402

if TYPE_CHECKING:
    from labelling import Start


def test_the_label_process_stays_small_through_thousands_of_events(labeller: Start) -> None:
    one = labeller(2)
    one.api.merge({"status": {"images": [{"names": ["x" * 64] * 4} for _each in range(200)]}})
    for _each in range(2):  # the first has what it loads compiled
        one.start("flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}")
        one.wait(gpu_count="2")
        started = one.processor_seconds()
        eventually(lambda: one.api.counted("WATCH"), LATE)
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


def test_m14_labels_do_not_claim_what_the_plugin_refuses(labeller: Start) -> None:
    """An H100 has 48 clients of MPS at most, which only who knows the node can tell."""
    one = labeller(1)
    one.node.start_daemon(FAST)
    eventually(lambda: one.node.status()["state"] == "serving", LATE)
    one.start(FAST)
    one.wait(gpu_replicas="1", mps_capable="false")
    one.node.config.write_text(FAST + MANY)
    eventually(lambda: one.node.status()["config_problem"], LATE)
    eventually(lambda: "50 shares" in (one.state()["problem"] or ""), LATE)
    one.node.config.write_text(FAST + MANY + "# still\n")
    time.sleep(3)
    found = one.api.own()
    assert (found["nvidia.com/gpu.replicas"], found["nvidia.com/mps.capable"]) == ("1", "false")
    one.node.config.write_text(FAST + MANY.replace("mps", "timeSlicing"))
    one.wait(gpu_replicas="50")
    eventually(lambda: one.state()["problem"] is None, LATE)


def test_a_bad_configuration_at_the_start_is_waited_for(labeller: Start) -> None:
    one = labeller(1)
    one.start("flagz: {}")
    eventually(lambda: "unknown key flagz" in (one.state()["problem"] or ""), LATE)
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
    eventually(lambda: one.api.features, LATE)
    before = list(one.api.features.values())
    assert before[0]["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    one.api.objects.clear()
    eventually(lambda: one.api.features, LATE)
    assert one.api.own() == {}
