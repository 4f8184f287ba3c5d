# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Choices among GPUs whose connections the driver tells."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

READ = """
import json
from gpu_plugin._shared._machine.nvml import readings as topology
from gpu_plugin._shared._machine.nvml.real import open_nvml
with open_nvml() as nvml:
    gpus = nvml.gpus()[0]
    near = [topology.level(gpus[0], one) for one in gpus[1:]]
    print(json.dumps([near, [topology.links(one)._asdict() for one in gpus]]))
"""


def read(node: Node) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", READ], env=node.env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("product", "links"), [("h100-80", 18), ("v100", 6), ("t4", 0)])
def test_what_nvml_tells(make_node: MakeNode, product: str, links: int) -> None:
    near, found = read(make_node(4, product=product))
    assert near == [10, 50, 50]
    assert found == [{"switch": links, "peers": {}}] * 4


def test_links_from_gpu_to_gpu(make_node: MakeNode) -> None:
    node = make_node(3, product="v100")
    node.sim.ctl("cable", gpu="0", other="2", links=4)
    _near, found = read(node)
    addresses = [one["pci"] for one in node.sim.ctl("status")["gpus"]]
    assert [one["peers"] for one in found] == [{addresses[2]: 4}, {}, {addresses[0]: 4}]
    assert [one["switch"] for one in found] == [0, 0, 0]


def test_cabled_pairs_are_given_out_together(make_node: MakeNode) -> None:
    node = make_node(4, product="v100")
    node.sim.ctl("cable", gpu="0", other="2", links=2)
    start(node, 4)
    assert chosen(node, "one", 1) == [1]
    assert chosen(node, "two", 2) == [0, 2]


def start(node: Node, count: int) -> None:
    """Start everything and wait until the connections were read."""
    node.serve(count)
    node.registered()
    eventually(lambda: "topology" in node.status()["chores"])


def chosen(node: Node, pod: str, count: int) -> list[int]:
    uuids = node.uuids()
    return sorted(uuids.index(one) for one in node.admit(pod, gpu=count)["devices"][GPU])


def test_pairs_stay_together_and_are_known_for_good(make_node: MakeNode) -> None:
    node = make_node(8)
    start(node, 8)
    assert chosen(node, "one", 1) == [0]
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceGetTopologyCommonAncestor", code=999)
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceGetNvLinkState", code=999)
    assert eventually(lambda: chosen(node, "two", 2)) == [2, 3]
    assert chosen(node, "three", 1) == [1]
    assert "not all connections" not in node.logged()


def test_a_gpu_that_does_not_tell_its_connections_fails_no_request(make_node: MakeNode) -> None:
    node = make_node(4)
    node.sim.ctl("fault", gpu="3", function="nvmlDeviceGetNvLinkState", code=15)
    start(node, 4)
    eventually(lambda: "not all connections of the GPUs are known" in node.logged())
    assert chosen(node, "one", 2) == [0, 1]
    node.sim.ctl("lose", gpu="2")
    node.wait(GPU, 3)
    assert chosen(node, "two", 1) == [3]
