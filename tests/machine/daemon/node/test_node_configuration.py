# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Configurations that can't be used: at a start, for a while, or for one device only."""

from __future__ import annotations

import hashlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode, MakeShared
    from tests.fakes.daemon.running import Node
    from tests.fakes.mps.mps_sharing import Shared

from tests.fakes.daemon import scraping
from tests.fakes.daemon.running import GPU

SHARED = "nvidia.com/gpu.shared"
SLICED = (
    "sharing: {{timeSlicing: {{renameByDefault: true, resources: [{{name: gpu, replicas: {}}}]}}}}"
)
GOOD, BAD = SLICED.format(3), "flags: {migStratgy: none}"
REFUSING = "{{resources: [{{name: gpu, replicas: {}, memory: 900M}}], onBusy: refuse}}"


def folder(node: Node) -> Path:
    return node.folder / "state"


def start(node: Node, text: str, *flags: str, **env: str) -> None:
    node.start_daemon(text, "--state-directory", str(folder(node)), *flags, **env)


def kept(node: Node) -> str:
    """The configuration that a start with a bad file would use."""
    file = folder(node) / "configuration.json"
    return file.read_text() if file.exists() else ""


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_bad_file_at_a_start_leaves_the_last_good_configuration(make_node: MakeNode) -> None:
    node, metrics = make_node(1), scraping.Metrics()
    node.start_kubelet()
    start(node, GOOD, "--metrics-address", metrics.address)
    node.wait(SHARED, 3)
    eventually(lambda: sha256(GOOD) in kept(node))
    node.kill()

    start(node, BAD, "--metrics-address", metrics.address)
    eventually(lambda: node.notifications().count("READY=1") == 2)
    node.wait(SHARED, 3)
    status = eventually(lambda: node.status().get("config_fallback") and node.status())
    assert "did you mean flags.migStrategy?" in status["config_problem"]
    assert status["config_sha256"] == sha256(GOOD)
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert "in force: the last good configuration" in shown
    assert "the last good one is in force" in node.logged()
    eventually(lambda: metrics.value("gpu_plugin_config_fallback") == 1)
    assert metrics.value("gpu_plugin_config_refused") == 1
    assert sha256(BAD) not in kept(node)

    node.config.write_text(SLICED.format(5))
    node.wait(SHARED, 5)
    eventually(lambda: node.status()["config_fallback"] is False)
    assert node.status()["config_problem"] is None
    eventually(lambda: sha256(SLICED.format(5)) in kept(node))


def test_flags_and_variables_are_always_those_of_the_present_start(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    start(node, "version: v1", "--device-id-strategy", "index", DEVICE_LIST_STRATEGY="envvar")
    node.wait(GPU, 1)
    eventually(lambda: kept(node))
    node.kill()
    start(node, BAD, DEVICE_LIST_STRATEGY="volume-mounts")
    node.wait(GPU, 1)
    eventually(lambda: node.status().get("config_fallback"))
    (uuid,) = node.health(GPU)
    (mount,) = node.admit("one", gpu=1)["mounts"]
    assert mount["container"].endswith(uuid)


def test_without_a_last_good_configuration_a_bad_file_ends_the_start(make_node: MakeNode) -> None:
    node, lost = make_node(1), "the last good configuration is lost"
    node.start_kubelet()
    node.start_daemon(BAD)  # there is no folder to keep one in
    assert node.ended() == 1
    start(node, BAD)  # none was kept
    assert node.ended() == 1
    assert "did you mean flags.migStrategy?" in node.logged()
    assert lost not in node.logged()
    start(node, GOOD)
    node.wait(SHARED, 3)
    text = eventually(lambda: kept(node))
    node.kill()
    path = folder(node) / "configuration.json"
    for number, damaged in enumerate((text[:-20], text.replace('"version": 1', '"version": 9')), 1):
        path.write_text(damaged)
        start(node, BAD)
        assert node.ended() == 1
        assert node.logged().count(lost) == number


def test_a_refused_configuration_is_never_the_last_good_one(make_node: MakeNode) -> None:
    """What the node refuses while running is refused at the next start as well."""
    node = make_node(1)
    unsharable = "sharing: {mps: {resources: [{name: gpu, replicas: 50}]}}"
    node.start_kubelet()
    start(node, GOOD)
    node.wait(SHARED, 3)
    eventually(lambda: sha256(GOOD) in kept(node))
    node.config.write_text(unsharable)
    eventually(lambda: "MPS takes from 1 to 48" in (node.status()["config_problem"] or ""))
    node.kill()
    start(node, unsharable)
    node.wait(SHARED, 3)
    eventually(lambda: "MPS takes from 1 to 48" in (node.status().get("config_problem") or ""))
    assert node.status()["config_fallback"] is True
    assert sha256(unsharable) not in kept(node)


def test_a_disk_that_takes_nothing_keeps_nobody_from_being_served(make_node: MakeNode) -> None:
    node = make_node(1)
    folder(node).write_text("in the way")
    node.start_kubelet()
    start(node, GOOD)
    node.wait(SHARED, 3)
    eventually(lambda: node.status().get("chores", {}).get("last_config"))
    folder(node).unlink()
    eventually(lambda: sha256(GOOD) in kept(node))
    eventually(lambda: node.status()["chores"]["last_config"] is None)


@pytest.fixture
def refusing(make_shared: MakeShared, standin: Path) -> Callable[[int, int], Shared]:
    """Make nodes that share GPUs by MPS, and refuse what clients stand against."""

    def make(gpus: int, count: int) -> Shared:
        shared = make_shared(gpus=gpus, program=standin)
        shared.env["STATE_DIRECTORY"] = str(folder(shared.node))
        shared.start(REFUSING.format(4))
        shared.wait(GPU, count)
        return shared

    return make


@pytest.mark.long
def test_a_configuration_refused_for_clients_is_applied_when_they_have_ended(
    refusing: Callable[[int, int], Shared],
) -> None:
    from tests.fakes.mps.mps_sharing import Client

    shared = refusing(1, 4)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    shared.change(REFUSING.format(2))
    eventually(lambda: "onBusy is refuse" in (node.status()["config_problem"] or ""))
    unchanged(lambda: (shared.healthy(), client.living()), (4, True), node.looks, 5)
    assert node.logged().count("configuration refused") == 1
    client.end()
    shared.wait(GPU, 2)
    eventually(lambda: node.status()["config_problem"] is None)
    assert node.logged().count("info: started") == 1


@pytest.mark.long
def test_what_was_refused_at_the_last_start_is_applied_as_well(
    refusing: Callable[[int, int], Shared],
) -> None:
    from tests.fakes.mps.mps_sharing import Client

    shared = refusing(1, 4)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    before = shared.state(uuid)
    eventually(lambda: "900M" in kept(node))
    node.kill()
    shared.start(REFUSING.format(2))
    shared.wait(GPU, 4)
    eventually(lambda: "onBusy is refuse" in (node.status().get("config_problem") or ""))
    assert (client.living(), shared.state(uuid)["daemon"]) == (True, before["daemon"])
    client.end()
    shared.wait(GPU, 2)
    eventually(lambda: node.status()["config_fallback"] is False)


@pytest.mark.long
def test_a_busy_device_at_a_start_holds_back_itself_only(
    refusing: Callable[[int, int], Shared],
) -> None:
    from tests.fakes.mps.mps_sharing import Client

    shared = refusing(2, 8)
    node, (first, second) = shared.node, shared.uuids()
    client = Client(shared, first)
    before = shared.state(first)
    node.kill()
    shutil.rmtree(folder(node), ignore_errors=True)  # none is known that could be in force instead
    shared.start(REFUSING.format(2), "flags: {failOnInitError: true}")
    shared.wait(GPU, 2)
    healthy = {one.partition("::")[0] for one, how in node.health(GPU).items() if how == "Healthy"}
    assert healthy == {second}
    waits = "its limits change when its last client has ended"
    eventually(lambda: [*node.problems(GPU).items()], [(first, waits)])
    assert node.status()["state"] == "serving"
    assert (client.living(), shared.state(first)["daemon"]) == (True, before["daemon"])
    client.end()
    shared.wait(GPU, 4)
    assert shared.state(first)["daemon"] != before["daemon"]


def test_allocate_answers_by_the_old_configuration_while_a_new_one_is_judged(
    make_node: MakeNode, tmp_path: Path
) -> None:
    """The judgement takes as long as NVIDIA's program, which is asked whether several users may share."""
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/asked\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    node = make_node(1)
    (uuid,) = node.serve(1, "version: v1", PATH=f"{tmp_path}:/usr/bin:/bin")
    node.config.write_text(
        "flags: {plugin: {deviceIDStrategy: index}}\n"
        "sharing: {mps: {multiUser: true, resources: [{name: gpu, replicas: 2}]}}"
    )
    eventually((tmp_path / "asked").exists)
    for _pod in range(3):
        assert node.admit("one", gpu=1)["envs"] == {"NVIDIA_VISIBLE_DEVICES": uuid}
        node.ask("release", pod="one")
    assert not node.status()["config_problem"]
    (tmp_path / "go").write_text("")
    eventually(lambda: node.status()["config_problem"])


def test_a_reload_is_always_followed_by_ready(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1)
    eventually(lambda: "READY=1" in node.notifications())
    for number, text in enumerate((GOOD, BAD, BAD), 1):
        node.config.write_text(text)
        node.signal(signal.SIGHUP)
        eventually(lambda number=number: node.notifications().count("RELOADING=1") == number)
        eventually(lambda: "READY=1" in node.notifications().rpartition("RELOADING=1")[2])


UNFORESEEN = """
import sys
from gpu_plugin import cli
from gpu_plugin.config import sources

load = sources.Source.load


def once(self):
    sources.Source.load = lambda self: {}["nobody foresaw this"]
    return load(self)


sources.Source.load = once
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_reload_that_fails_in_a_way_nobody_foresaw_ends_nothing(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.config.write_text("")
    node.run_daemon("-c", UNFORESEEN)
    node.wait(GPU, 1)
    eventually(lambda: "READY=1" in node.notifications())
    node.signal(signal.SIGHUP)
    eventually(lambda: "READY=1" in node.notifications().partition("RELOADING=1")[2])
    assert "KeyError: 'nobody foresaw" in eventually(lambda: node.status()["config_problem"])
    assert node.admit("one", gpu=1)["envs"]
