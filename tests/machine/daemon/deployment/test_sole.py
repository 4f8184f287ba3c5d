# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The host's service and the DaemonSet's pod on one node: whichever comes second refuses, and says why."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from gpu_plugin._shared._device_plugin.instance_lock import FILE

from tests.fakes.daemon.running import GPU
from tests.support.helper_process import opened
from tests.support.waiting import LIMIT, eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "INVOCATION_ID": ""}
SERVICE = {"INVOCATION_ID": "5ca1ab1e"}
AT_ONCE = ("--lock-timeout", "0")


def refused(node: Node, second: dict[str, str], holder: str, step: str) -> None:
    """See that another device plugin ends and says why, and that the one that serves has not noticed."""
    first, before = node.daemon, node.status()["pid"]
    node.start_daemon("", *AT_ONCE, **second)
    assert node.ended() == 1
    node.daemon = first
    said = node.logged().splitlines()[-1]
    assert f"another device plugin serves the GPUs of this node: {holder}" in said
    assert step in said
    assert first is not None
    assert first.poll() is None
    assert node.status()["pid"] == before
    assert node.resources() == {GPU: 2}


def test_the_second_device_plugin_of_a_node_refuses(make_node: MakeNode) -> None:
    """One that was killed is in nobody's way."""
    node, off = make_node(2), "keep the DaemonSet's pods off this node"
    node.serve(2, **SERVICE)
    refused(node, POD, "gpu-device-plugin.service", "device_plugin_state: absent")
    for first, seconds, holder, step in (
        (POD, (SERVICE, POD), "the pod ", off),
        ({}, (SERVICE,), "process ", "end that one first"),
    ):
        node.kill()
        node.wait(GPU, 0)
        node.start_daemon("", **first)
        node.wait(GPU, 2)
        for second in seconds:
            refused(node, second, holder, step)


def test_the_next_one_waits_for_one_that_is_about_to_end(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2, **POD)
    first = node.daemon
    node.start_daemon("", **SERVICE)
    assert first is not None
    assert node.daemon is not None
    second = node.daemon.pid
    eventually(lambda: opened(second, node.status_file.with_name(FILE)))
    first.send_signal(signal.SIGTERM)
    assert first.wait(LIMIT) == 0
    eventually(lambda: node.status().get("pid") == second)
    node.wait(GPU, 2)
