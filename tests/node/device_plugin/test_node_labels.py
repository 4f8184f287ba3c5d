# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Node labels through the playbook, with a stand-in for the Kubernetes API beside the node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpunode_tool.testing import Node

from tests.fakes.kubernetes.standin_api import NODE
from tests.node.cluster_api import join
from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]

CHOICE = "nvidia.com/device-plugin.config"
UNIT = "gpu-node-labels.service"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
MANIFESTS = "/etc/kubernetes/manifests"
PLUGIN = {"migStrategy": "mixed", "plugin": {"deviceListStrategy": ["cdi-cri"]}}
SHARING = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}
MANY = {"version": "v1", "flags": PLUGIN, "sharing": SHARING}


def as_the_service(node: Node, *command: str) -> str:
    """Do it where the service is; returns what was said."""
    pid = node.run("systemctl", "show", "--property=MainPID", "--value", UNIT).strip()
    script = 'nsenter --target "$0" --mount "$@" 2>&1 || true'
    return node.run("sh", "-c", script, pid, *command)


def test_labels_are_written_changed_and_taken_back(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("labels", "h100-80", 2)
    node.variables["node_labels_node_name"] = NODE
    node.variables["device_plugin_node_condition"] = True
    api = join(node, tmp_path)
    try:
        api.set(example_com__theirs="stays")
        first = node.play(device_plugin_configs={"many": MANY}, container_runtime_mode="cdi")
        assert first.ok, first.message()
        eventually(lambda: api.own().get("nvidia.com/gpu.count"), "2")
        assert node.allocatable() == {"gpu": 2}
        eventually(lambda: "GPUHealthy" in api.conditions(), True)

        again = node.play(device_plugin_configs={"many": MANY})
        assert again.ok, again.message()
        assert again.changed() == []

        api.merge({"metadata": {"labels": {CHOICE: "many"}}})
        eventually(node.allocatable, {"gpu": 6})
        eventually(lambda: api.own().get("nvidia.com/gpu.replicas"), "3")
        chosen = node.play(device_plugin_configs={"many": MANY})
        assert chosen.ok, chosen.message()
        assert chosen.changed() == []

        one = node.play(node_labels_extra={"example.com/pool": "a"})
        assert one.ok, one.message()
        assert node.run("readlink", "/etc/gpu-node/config.yaml", check=False) == ""
        eventually(lambda: api.own().get("example.com/pool"), "a")
        assert node.allocatable() == {"gpu": 2}

        filed = node.play(node_labels_output="file")
        assert filed.ok, filed.message()
        eventually(lambda: "nvidia.com/gpu.count=2\n" in node.run("cat", FEATURES), True)
        node.run("mkdir", "-p", MANIFESTS)
        for path in (f"{MANIFESTS}/evil.yaml", "/etc/kubernetes/kubelet.conf", "/etc/passwd"):
            assert "Read-only file system" in as_the_service(node, "sh", "-c", f": >>{path}")
        assert node.run("ls", MANIFESTS) == ""

        gone = node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False)
        assert gone.ok, gone.message()
        assert api.own() == {"example.com/theirs": "stays", CHOICE: "many"}
        assert api.own("annotations") == {}
        assert set(api.conditions()) == {"Ready"}
        assert node.run("systemctl", "cat", UNIT, check=False) == ""
        assert node.run("ls", "/etc/gpu-node").split() == [
            "device-nodes"
        ]  # the driver's, which stays
    finally:
        api.stop()
