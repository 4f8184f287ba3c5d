# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that the playbook brings up before it joins a cluster, which is the usual order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

GPU = "/dev/nvidia"


def test_a_node_joins_after_its_bring_up_and_serves(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("later", "h100-80", 2)
    node = cluster.node
    assert node.run("sh", "-c", "ls -d /var/lib/kubelet/*", check=False) == ""
    up = node.play()
    assert up.ok, up.message()
    started = node.run("systemctl", "show", "--property=NRestarts,ExecMainPID", "gpu-device-plugin")
    cluster.join()
    cluster.wait(gpu=2)
    again = node.run("systemctl", "show", "--property=NRestarts,ExecMainPID", "gpu-device-plugin")
    assert again == started  # nothing has to be done by hand, or by a restart
    shown = cluster.pod("one", gpu=1)
    assert len([line for line in shown if line.startswith(GPU) and line[-1].isdigit()]) == 1
    validated = node.play("gpu.node.validate")
    assert validated.ok, validated.message()
    repeated = node.play()
    assert repeated.ok, repeated.message()
    assert cluster.phase("one") == "Running"
