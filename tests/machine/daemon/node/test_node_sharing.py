# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shared devices on a node, and the names that its configuration gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


SHARED = "nvidia.com/gpu.shared"
SLICED = """
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources:
    - {name: nvidia.com/gpu, replicas: 3, devices: [0]}
    - {name: nvidia.com/mig-9g.9gb, replicas: 3}
"""


def test_shares_from_the_kubelets_side(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon(SLICED)
    devices = node.wait(SHARED, 3)["devices"]
    node.wait(GPU, 1)
    uuids = node.uuids()
    assert set(devices) == {f"{uuids[0]}::{number}" for number in range(3)}
    assert set(node.health(GPU)) == {uuids[1]}
    pod = node.admit("one", **{"gpu.shared": 1})
    assert pod["envs"] == {"NVIDIA_VISIBLE_DEVICES": uuids[0]}
    with pytest.raises(ValueError, match="maximum request size for shared resources is 1; found 2"):
        node.admit("two", **{"gpu.shared": 2})
    eventually(lambda: "which this node does not have" in node.logged())

    node.sim.ctl("xid", gpu="0", number=79)
    node.wait(SHARED, 0)
    assert set(node.health(SHARED).values()) == {"Unhealthy"}
    assert set(node.health(GPU).values()) == {"Healthy"}
    assert node.logged().count("device is unhealthy") == 1  # one fact, not one a share


def test_names_of_the_configuration(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(1, "1g.10gb", "3g.40gb")
    node.start_kubelet()
    node.start_daemon(
        "flags: {migStrategy: mixed}\n"
        "resources: {gpus: [{pattern: '*H100*', name: h100}], mig: [{pattern: '1g.*', name: small}]}"
    )
    node.wait("nvidia.com/h100", 1)
    node.wait("nvidia.com/small", 1)
    node.wait("nvidia.com/mig-3g.40gb", 1)
    assert GPU not in node.resources()


def test_cdi_devices_follow_the_nodes_specification(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon("flags: {plugin: {deviceListStrategy: [cdi-cri, cdi-annotations]}}")
    eventually(lambda: GPU in node.resources())
    ((uuid, health),) = node.health(GPU).items()
    assert health == "Unhealthy"
    problems = eventually(lambda: node.problems(GPU))
    assert problems[uuid].startswith("no container runtime knows the CDI device")
    folder = node.sim.root / "etc/cdi"
    folder.mkdir(parents=True)
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": uuid}]}
    (folder / "nvidia.yaml").write_text(json.dumps(spec))
    ours = node.sim.root / "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
    eventually(ours.exists)
    name = f"k8s.device-plugin.nvidia.com/gpu={uuid}"
    node.wait(GPU, 1)
    pod = node.admit("one", gpu=1)
    assert pod["envs"] == {}
    assert pod["cdi_devices"] == [name]
    ((key, value),) = pod["annotations"].items()
    assert key.startswith("cdi.k8s.io/nvidia-device-plugin_")
    assert value == name
