# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A kubelet before 1.29, which drops CDI devices of Allocate's answer: `make test-cluster OLD_KUBELET=program`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cluster import Cluster
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

OLD_KUBELET = os.environ.get("OLD_KUBELET", "")
PROGRAM = "/opt/old-kubelet"
IN_PATH = "/usr/local/bin/kubelet"
BY_FIELD = {"flags": {"plugin": {"deviceListStrategy": ["cdi-cri"]}}}
# Keys that came with later releases go; what it has written of devices is another format.
REPLACE = f"""
sed -i 's/"failCgroupV1": false, //; s/"containerRuntimeEndpoint": "[^"]*", //' /var/lib/kubelet/config.yaml
mkdir -p /etc/systemd/system/kubelet.service.d
printf '[Service]\\nExecStart=\\nExecStart=%s %s %s %s %s\\n' {PROGRAM} --kubeconfig=/etc/kubernetes/kubelet.conf \\
    --config=/var/lib/kubelet/config.yaml --container-runtime-endpoint=unix:///run/containerd/containerd.sock \\
    --hostname-override=$(hostname) >/etc/systemd/system/kubelet.service.d/old.conf
systemctl daemon-reload
systemctl stop kubelet.service
rm -f /var/lib/kubelet/*_state /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
systemctl start kubelet.service
"""

pytestmark = pytest.mark.skipif(not OLD_KUBELET, reason="OLD_KUBELET names no program")


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A node that has joined by an old kubelet, which preflight can't ask: it is not in PATH."""
    made = make_cluster("old", "t4", 1, volumes=[f"{OLD_KUBELET}:{PROGRAM}:ro"])
    made.join()
    made.node.run("sh", "-ec", REPLACE)
    eventually(
        lambda: made.get("node", made.node.name)["status"]["nodeInfo"]["kubeletVersion"] < "v1.29"
    )
    eventually(made.ready)
    return made


def gpus(shown: list[str]) -> list[str]:
    """Return the device nodes of GPUs among what a pod shows."""
    return [line for line in shown if re.fullmatch(r"/dev/nvidia\d+", line)]


def test_a_pod_gets_its_gpu_by_the_roles_default_and_none_by_the_field_alone(
    cluster: Cluster,
) -> None:
    by_field = cluster.node.play(device_plugin_config=BY_FIELD)
    assert by_field.ok, by_field.message()
    cluster.wait(gpu=1)
    assert gpus(cluster.pod("dropped", gpu=1)) == []
    cluster.end()
    by_both = cluster.node.play()
    assert by_both.ok, by_both.message()
    cluster.wait(gpu=1)
    assert gpus(cluster.pod("passed", gpu=1)) == ["/dev/nvidia0"]
    cluster.end()


def test_the_field_alone_is_refused_where_the_kubelet_can_be_asked(cluster: Cluster) -> None:
    cluster.node.run("ln", "-s", PROGRAM, IN_PATH)
    refused = cluster.node.play(device_plugin_config=BY_FIELD)
    assert not refused.ok
    assert "drops the answer of cdi-cri, which 1.29.0 and later pass on" in refused.message()
    default = cluster.node.play()
    assert default.ok, default.message()
    assert default.changed() == []
