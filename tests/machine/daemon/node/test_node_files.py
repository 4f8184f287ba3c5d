# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the daemon serves while its files can't be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import running, scraping

GPU = running.GPU


def test_a_full_run_keeps_nobody_from_being_served(small_run: Node) -> None:
    node, metrics = small_run, scraping.Metrics()
    first, second = node.serve(2, "", "--metrics-address", metrics.address)
    node.registered()
    filler = running.fill(node.status_file.parent)
    fed = node.fed()
    node.sim.ctl("xid", gpu="0", number=79)  # which changes both files
    node.allocatable(GPU, 1)
    with running.plugin_channel(node) as ask:
        assert ask(second) == ""
        assert "XID 79" in ask(first)
    eventually(lambda: node.fed() >= fed + 2)
    assert metrics.get("/healthz") == (200, "ok\n")
    for chore in ("status_file", "health_file"):
        assert metrics.value("gpu_plugin_chore_failed", chore=chore) == 1
        assert node.logged().count(f"chore={chore}") == 1
    filler.unlink()
    eventually(lambda: node.problems(GPU))
    eventually(lambda: not any(node.status()["chores"].values()))
    eventually(lambda: metrics.value("gpu_plugin_chore_failed", chore="health_file") == 0)


def test_a_daemon_that_starts_without_room_serves(small_run: Node) -> None:
    node = small_run
    filler = running.fill(node.status_file.parent)
    node.start_kubelet()
    node.start_daemon()
    node.allocatable(GPU, 2)
    eventually(lambda: "READY=1" in node.notifications())
    filler.unlink()
    node.registered()


def test_a_chore_that_fails_is_named_until_it_works(make_node: MakeNode) -> None:
    node = make_node(1)
    in_the_way = node.status_file.with_name("health.json")
    in_the_way.mkdir(parents=True)
    node.serve(1)
    eventually(lambda: node.status().get("chores", {}).get("health_file"))
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "health_file fails: [Errno 21] Is a directory" in shown
    in_the_way.rmdir()
    eventually(lambda: node.status()["chores"]["health_file"] is None)
    assert node.logged().count("chore=health_file") == 2  # that it fails, and that it works again
