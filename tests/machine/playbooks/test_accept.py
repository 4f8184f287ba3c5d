# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs of all nodes are tested and compared; one that is slow twice is not accepted."""

from __future__ import annotations

from typing import Any

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene

NODES = ("n1", "n2", "n3", "n4")


def fleet(scene: MakeScene, **slow: float) -> Scene:
    """Return nodes with two H100s each, whose memory is as fast as is said of a node, or as fast as usual."""
    nodes = scene(*NODES)
    for name in NODES:
        rows: list[dict[str, Any]] = [
            {
                "uuid": f"GPU-{name}-{number}",
                "product": "H100",
                "figures": {"memory_gb_per_s": speed},
            }
            for number, speed in enumerate((2900.0, slow.get(name, 2910.0)))
        ]
        nodes.become(name, rows=rows)
    return nodes


def test_gpu_that_is_slower_than_its_fleet_is_tested_again_and_not_accepted(
    scene: MakeScene,
) -> None:
    nodes = fleet(scene, n3=2600.0)
    run = nodes.play("accept")
    assert run.status == 2, run.text
    assert (
        "n3: GPU GPU-n3-1: memory_gb_per_s is 2600, 10.3 % below the median of 8 GPUs" in run.text
    )
    assert "not accepted: ['GPU-n3-1']" in run.text
    assert [nodes.log(name) for name in NODES] == [
        ["accept"],
        ["accept"],
        ["accept", "accept"],
        ["accept"],
    ]


def test_slow_link_is_tested_again_with_all_gpus_of_its_node(scene: MakeScene) -> None:
    nodes = fleet(scene)
    for name in NODES:
        rows = nodes.node(name)["rows"]
        for row in rows:
            row["figures"]["peer_gb_per_s"] = 90.0 if name == "n3" else 380.0
        nodes.become(name, rows=rows)
    run = nodes.play("accept")
    assert run.status == 2, run.text
    assert "not accepted: ['GPU-n3-0', 'GPU-n3-1']" in run.text
    assert nodes.log("n3") == ["accept", "accept"]


def test_fleet_of_equal_gpus_is_tested_once(scene: MakeScene) -> None:
    nodes = fleet(scene)
    run = nodes.play("accept")
    assert run.status == 0, run.text
    assert {tuple(nodes.log(name)) for name in NODES} == {("accept",)}


def test_fleet_is_not_compared_where_that_is_left_out(scene: MakeScene) -> None:
    nodes = fleet(scene, n3=2600.0)
    nodes.write(accept_fleet=False)
    run = nodes.play("accept")
    assert run.status == 0, run.text
    assert nodes.log("n3") == ["accept"]


def test_floors_of_the_user_hold_for_each_gpu(scene: MakeScene) -> None:
    nodes = fleet(scene, n3=2600.0)
    nodes.write(accept_floors={"memory_gb_per_s": 2700})
    run = nodes.play("accept")
    assert run.status == 2, run.text
    assert "not accepted: ['GPU-n3-1']" in run.text
    assert nodes.log("n3") == ["accept"]
