# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the daemon serves while something beside it hangs, or can't be written."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import running, scraping

GPU = "nvidia.com/gpu"
HANGS = "nvmlDeviceGetMemoryInfo"
WATCHDOG = 30.0  # WatchdogSec of the unit
PATIENCE = 10.0  # a GPU is late after 4 seconds


def watchdogs(node: Node) -> int:
    """Return how often the watchdog was fed so far."""
    return int(node.notifications().count("WATCHDOG=1"))


def hang(node: Node, gpu: str, seconds: float) -> None:
    node.sim.ctl("delay", function=HANGS, gpu=gpu, ms=int(seconds * 1000))


def test_a_gpu_that_hangs_takes_no_other_with_it(make_node: MakeNode) -> None:
    node = make_node(3)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 3)
    sick, well, other = (one["uuid"] for one in node.sim.ctl("status")["gpus"])
    eventually(lambda: watchdogs(node) >= 1)
    begun, fed = time.monotonic(), watchdogs(node)
    hang(node, "0", WATCHDOG + 10)
    time.sleep(2)
    assert set(node.health(GPU).values()) == {"Healthy"}  # late is not yet sick
    node.sim.ctl("xid", gpu="2", number=79)
    eventually(lambda: node.health(GPU)[other] == "Unhealthy")
    eventually(lambda: node.health(GPU)[sick] == "Unhealthy")
    assert node.health(GPU)[well] == "Healthy"
    problem = eventually(lambda: node.status()["resources"][GPU]["problems"].get(sick))
    assert problem == "NVML has not answered for it for 4 seconds"
    with running.plugin_channel(node) as ask:
        while (
            time.monotonic() - begun < 20
        ):  # test_node_hanging goes on for longer than the watchdog
            assert ask(well) == ""
            assert "has not answered" in ask(sick)
            time.sleep(0.5)
    assert watchdogs(node) - fed >= 3
    threads = len(list(Path(f"/proc/{node.daemon.pid}/task").iterdir()))
    node.sim.ctl("clear-faults")
    eventually(lambda: node.health(GPU)[sick] == "Healthy")
    assert node.logged().count("info: started") == 1
    assert len(list(Path(f"/proc/{node.daemon.pid}/task").iterdir())) <= threads


def test_a_driver_that_hangs_at_the_start_holds_up_nothing(make_node: MakeNode) -> None:
    node = make_node(1)
    node.sim.ctl("delay", function="nvmlDeviceGetCount_v2", ms=14_000)
    node.start_kubelet()
    node.start_daemon()
    eventually(lambda: "READY=1" in node.notifications())
    eventually(lambda: watchdogs(node) >= 1)
    assert "has not answered" in node.status()["problem"]
    node.sim.ctl("clear-faults")
    node.wait(GPU, 1)


def test_it_ends_when_it_is_asked_to_while_nvml_hangs(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    node.sim.ctl("delay", function="nvmlDeviceGetCount_v2", ms=60_000)
    time.sleep(1)
    node.signal(signal.SIGTERM)
    assert node.ended() == 0


def test_a_full_run_keeps_nobody_from_being_served(small_run: Node) -> None:
    node, metrics = small_run, scraping.Metrics()
    node.start_kubelet()
    node.start_daemon("", "--metrics-address", metrics.address)
    first, second = node.wait(GPU, 2)["devices"]
    eventually(lambda: node.status()["resources"].get(GPU, {}).get("registered"))
    filler = running.fill(node.status_file.parent)
    fed = watchdogs(node)
    node.sim.ctl("xid", gpu="0", number=79)  # which changes both files
    node.wait(GPU, 1)
    with running.plugin_channel(node) as ask:
        assert ask(second) == ""
        assert "XID 79" in ask(first)
    eventually(lambda: watchdogs(node) - fed >= 2)
    assert metrics.get("/healthz") == (200, "ok\n")
    for chore in ("status_file", "health_file"):
        assert metrics.value("gpu_plugin_chore_failed", chore=chore) == 1
        assert node.logged().count(f"chore={chore}") == 1
    filler.unlink()
    eventually(lambda: node.status()["resources"][GPU]["problems"])
    eventually(lambda: node.status()["chores"]["status_file"] is None)
    assert metrics.value("gpu_plugin_chore_failed", chore="health_file") == 0


def test_a_daemon_that_starts_without_room_serves(small_run: Node) -> None:
    node = small_run
    filler = running.fill(node.status_file.parent)
    node.start_kubelet()
    node.start_daemon()
    assert node.wait(GPU, 2)["allocatable"] == 2
    eventually(lambda: "READY=1" in node.notifications())
    filler.unlink()
    eventually(lambda: "nvidia.com/gpu" in node.status()["resources"])


def test_a_chore_that_fails_is_named_until_it_works(make_node: MakeNode) -> None:
    node = make_node(1)
    in_the_way = node.status_file.with_name("health.json")
    in_the_way.mkdir(parents=True)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 1)
    eventually(lambda: node.status().get("chores", {}).get("health_file"))
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "health_file fails: [Errno 21] Is a directory" in shown
    in_the_way.rmdir()
    eventually(lambda: node.status()["chores"]["health_file"] is None)
    assert node.logged().count("chore=health_file") == 2  # that it fails, and that it works again
