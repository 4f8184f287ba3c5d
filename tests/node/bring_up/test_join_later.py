# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node is brought up before it joins a cluster, leaves it, and joins another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

FOLDER = "/var/lib/kubelet/device-plugins"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
SEALED = "/etc/systemd/system/gpu-device-plugin.service.d/sealed.conf"

pytestmark = [pytest.mark.node, pytest.mark.long]


def leave(node: Node) -> None:
    """Take a node out of its cluster, as distributions of Kubernetes do it: nothing of the kubelet is left."""
    node.run("systemctl", "stop", "kubelet.service")
    node.run("rm", "-rf", "/var/lib/kubelet")


def join(node: Node) -> None:
    node.run("systemctl", "start", "kubelet.service")


def test_a_kubelet_that_comes_later_gets_its_devices(make_node: Callable[..., Node]) -> None:
    node = make_node("later", "a100-40", 2, node_labels_output="file")
    leave(node)
    up = node.play()
    assert up.ok, up.message()
    said = [result["msg"] for action, _task, result in up.results() if action.endswith("debug")]
    assert "registered the GPUs yet (no kubelet listens" in said[-1]
    warned = [text for _action, _task, one in up.results() for text in one.get("warnings", ())]
    assert any("registered the GPUs yet (no kubelet listens" in text for text in warned), warned
    required = node.play(gpu_nodes_require_kubelet=True, device_plugin_wait_timeout=3)
    assert not required.ok
    words = required.message()
    assert "after 3 s no kubelet has registered the GPUs" in words, words
    join(node)
    eventually(node.allocatable, {"gpu": 2})
    assert node.run("stat", "--format=%a", "/var/lib/kubelet", FOLDER).split() == ["750", "750"]

    leave(node)
    join(node)
    eventually(node.allocatable, {"gpu": 2})
    checked = node.play("gpu.node.validate")
    assert checked.ok, checked.message()

    # NFD's folder is made for what writes there, at its next start.
    node.run("rm", "-rf", "/etc/kubernetes")
    node.run("systemctl", "restart", "gpu-node-labels.service")
    eventually(lambda: "nvidia.com/gpu.count=2" in node.run("cat", FEATURES))

    node.run("mkdir", "-p", SEALED.rpartition("/")[0])
    node.run("sh", "-c", f"printf '[Service]\\nReadOnlyPaths={FOLDER}\\n' > {SEALED}")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "restart", "gpu-device-plugin.service", "kubelet.service")
    eventually(node.allocatable, {})
    refused = node.play("gpu.node.validate")
    assert not refused.ok
    assert "registration: the kubelet does not know of nvidia.com/gpu" in refused.message()
    assert "Read-only file system" in refused.message()
