# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The host's service and the DaemonSet's pod on one node: whichever comes second refuses, and says why."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


GPU = "nvidia.com/gpu"
POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "INVOCATION_ID": ""}
SERVICE = {"INVOCATION_ID": "5ca1ab1e"}
CASES = [
    (SERVICE, POD, "gpu-device-plugin.service", "device_plugin_state: absent"),
    (POD, SERVICE, "the pod ", "keep the DaemonSet's pods off this node"),
    (POD, POD, "the pod ", "keep the DaemonSet's pods off this node"),
    ({}, SERVICE, "process ", "end that one first"),
]


@pytest.mark.parametrize(
    ("first", "second", "named", "step"),
    CASES,
    ids=["pod beside service", "service beside pod", "two pods", "by hand"],
)
def test_the_second_device_plugin_of_a_node_refuses(
    make_node: MakeNode, first: dict[str, str], second: dict[str, str], named: str, step: str
) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon("", **first)
    node.wait(GPU, 2)
    before, winner = node.status()["pid"], node.daemon
    node.start_daemon("", **second)
    assert node.ended() == 1
    said = node.log.read_text().splitlines()[-1]
    assert f"another device plugin serves the GPUs of this node: {named}" in said
    assert step in said
    # The first one has not noticed.
    assert winner is not None
    assert winner.poll() is None
    assert node.status()["pid"] == before
    assert node.resources() == {GPU: 2}
    winner.kill()
    winner.wait()


def test_one_that_was_killed_is_in_nobodys_way(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon("", **POD)
    node.wait(GPU, 2)
    node.signal(signal.SIGKILL)
    node.ended()
    node.start_daemon("", **SERVICE)
    node.wait(GPU, 2)
    eventually(lambda: node.status()["state"] == "serving")


def test_the_next_one_waits_for_one_that_is_about_to_end(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon("", **POD)
    node.wait(GPU, 2)
    first = node.daemon
    node.start_daemon("", **SERVICE)
    assert first is not None
    first.terminate()
    assert first.wait(8) == 0
    eventually(lambda: node.status().get("pid") == node.daemon.pid)
    node.wait(GPU, 2)
