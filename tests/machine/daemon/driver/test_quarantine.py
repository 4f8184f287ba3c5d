# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that somebody has set aside are given to nobody, from that moment on and until they are released."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.fakes.daemon.quarantined import WHY, put, set_aside
from tests.fakes.daemon.running import GPU, plugin_channel
from tests.fakes.daemon.scraping import Metrics
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.labelling import Start

MIG = "nvidia.com/mig-1g.10gb"
SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
MIXED = "flags: {migStrategy: mixed}"


def test_a_gpu_is_set_aside_and_released_while_the_plugin_runs(make_node: MakeNode) -> None:
    node, metrics = make_node(2), Metrics()
    first, second = node.serve(2, "", "--metrics-address", metrics.address)
    process = node.status()["pid"]
    set_aside(node.sim.root, second)
    node.wait(GPU, 1)
    assert node.health(GPU) == {first: "Healthy", second: "Unhealthy"}
    with plugin_channel(node) as ask:
        assert WHY in ask(second)
    state = node.status()
    assert state["resources"][GPU]["problems"] == {second: f"{WHY}. Way back: gpu.node.release"}
    assert state["quarantine"]["gpus"][second]["ticket"] == "OPS-1"
    (row,) = state["health"]
    assert (row["gpu"], row["kind"], row["reason"]) == (second, "quarantined", WHY)
    assert metrics.value("gpu_plugin_quarantined", uuid=second, index="1") == 1
    assert metrics.value("gpu_plugin_quarantined", uuid=first, index="0") == 0
    assert metrics.value("gpu_plugin_device_health", uuid=second, reason="quarantined") == 0
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert (
        f"in quarantine since 2027-01-15T08:00:00Z: {second}: XID 79 twice (ticket OPS-1)" in shown
    )
    set_aside(node.sim.root)
    node.wait(GPU, 2)
    assert node.status()["pid"] == process
    assert metrics.value("gpu_plugin_quarantined", uuid=second) == 0


def test_the_mig_devices_and_the_shares_of_a_gpu_are_set_aside_with_it(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(0, "1g.10gb", "1g.10gb")
    node.start_kubelet()
    node.start_daemon(f"{MIXED[:-1]}}}\n{SHARED}")
    node.wait(MIG, 2)
    node.wait(GPU, 4)
    first, second = node.uuids()
    set_aside(node.sim.root, first)
    node.wait(MIG, 0)
    node.wait(GPU, 4)
    set_aside(node.sim.root, second)
    node.wait(GPU, 0)
    node.wait(MIG, 2)


def test_a_node_is_set_aside_with_all_of_its_gpus(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    set_aside(node.sim.root, node=True)
    node.wait(GPU, 0)
    eventually(lambda: [one["kind"] for one in node.status()["health"]], ["quarantined"] * 2)
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "in quarantine since 2027-01-15T08:00:00Z: the node: XID 79 twice" in shown
    set_aside(node.sim.root)
    node.wait(GPU, 2)


def test_no_restart_and_no_repair_gives_a_gpu_back(make_node: MakeNode) -> None:
    node = make_node(2)
    _first, second = node.serve(2, "", "--recovery-period", "0.3")
    set_aside(node.sim.root, second)
    node.wait(GPU, 1)
    node.sim.ctl("xid", gpu="1", number=48)
    eventually(lambda: {one["kind"] for one in node.status()["health"]}, {"quarantined", "fault"})
    refused = node.cli("health", "--status-file", node.status_file, "clear", second)
    assert refused.returncode == 0  # the fault is; the quarantine is not
    eventually(lambda: [one["kind"] for one in node.status()["health"]], ["quarantined"])
    unchanged(node.resources, {GPU: 1}, node.looks)
    again = node.cli("health", "--status-file", node.status_file, "clear", second)
    assert "can't be cleared" in again.stderr
    assert "gpu.node.release" in again.stderr
    node.kill()
    node.start_daemon()
    node.wait(GPU, 1)


def test_what_was_read_last_stays_where_the_file_is_damaged_also_after_a_restart(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    node.serve(2)
    set_aside(node.sim.root, node.uuids()[1])
    node.wait(GPU, 1)
    put(node.sim.root, "{")

    def told() -> str:
        return str(node.status()["chores"].get("quarantine"))

    eventually(lambda: "quarantine.json is damaged" in told())
    assert "Next step: restore it from a backup" in node.logged()
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "quarantine fails: /var/lib/gpu-node/quarantine.json is damaged" in shown
    unchanged(node.resources, {GPU: 1}, node.looks)
    node.kill()
    node.start_daemon()
    node.wait(GPU, 1)
    assert "is damaged" in told()
    set_aside(node.sim.root, node=True)
    node.wait(GPU, 0)
    assert told() == "None"


def test_a_gpu_that_fell_off_the_bus_is_told_of_as_both(make_node: MakeNode) -> None:
    node, metrics = make_node(2), Metrics()
    _first, second = node.serve(2, "", "--metrics-address", metrics.address)
    set_aside(node.sim.root, second)
    node.wait(GPU, 1)
    node.sim.ctl("lose", gpu="1")
    eventually(lambda: {one["kind"] for one in node.status()["health"]}, {"quarantined", "lost"})
    assert metrics.value("gpu_plugin_quarantined", uuid=second) == 1
    node.sim.ctl("restore", gpu="1")
    eventually(lambda: [one["kind"] for one in node.status()["health"]], ["quarantined"])
    unchanged(node.resources, {GPU: 1}, node.looks)


def test_one_that_is_not_in_the_node_is_told_of_too(make_node: MakeNode) -> None:
    node, metrics = make_node(1), Metrics()
    set_aside(node.sim.root, "GPU-gone")
    node.serve(1, "", "--metrics-address", metrics.address)
    (row,) = node.status()["health"]
    assert (row["gpu"], row["index"]) == ("GPU-gone", "")
    eventually(lambda: metrics.value("gpu_plugin_quarantined", uuid="GPU-gone", index=""), 1.0)
    health = json.loads(node.cli("health", "--status-file", node.status_file, "--json").stdout)
    assert {one["gpu"]: one["state"] for one in health["gpus"]}["GPU-gone"] == "Unhealthy"


def test_the_node_says_in_an_annotation_what_is_set_aside(labeller: Start) -> None:
    one = labeller(2)
    one.start("flags: {gfd: {noTimestamp: true}}")
    one.wait(gpu_count="2")
    root, (first, second) = one.node.sim.root, one.node.uuids()
    set_aside(root, first, node=True)

    def told() -> str | None:
        return one.api.own("annotations").get("gpu.node/quarantined-gpus")

    eventually(told, f"all: XID 79 twice (ticket OPS-1); {first}: XID 79 twice (ticket OPS-1)")
    put(root, "{")
    eventually(lambda: "quarantine.json is damaged" in (one.state()["problem"] or ""))
    set_aside(root, second)
    eventually(told, f"{second}: XID 79 twice (ticket OPS-1)")
    set_aside(root)
    eventually(lambda: told() is None)
    assert one.api.own()["nvidia.com/gpu.count"] == "2"
