# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that somebody has set aside are tainted, with all that is made of them, and their pods go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.daemon.quarantined import WHY, put, set_aside
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.dra.driving import DraNode, MakeDra

TAINT = {"key": "gpu.node/quarantined", "effect": "NoSchedule"}


def taints(node: DraNode) -> dict[str, list[dict[str, Any]]]:
    """Return the taints of each device, without their times."""
    return {
        name: [{key: one[key] for key in one if key != "timeAdded"} for one in device["taints"]]
        for name, device in node.devices().items()
        if device.get("taints")
    }


def test_a_gpu_is_tainted_and_released_while_the_driver_runs(make_dra: MakeDra) -> None:
    node = make_dra(2)
    node.start()
    eventually(lambda: len(node.devices()) == 4)
    claim = node.claim("whole", "gpu-1")
    node.start_pod(claim)
    set_aside(node.sim.root, node.uuids()[1])
    eventually(lambda: taints(node), {"gpu-1": [TAINT], "gpu-1-share": [TAINT]})
    assert node.file(claim).exists()
    gpus = eventually(lambda: node.status()["quarantine"]["gpus"])
    assert gpus[node.uuids()[1]]["reason"] == "XID 79 twice"
    set_aside(node.sim.root, node=True)
    eventually(lambda: len(taints(node)), 4)
    set_aside(node.sim.root)
    eventually(lambda: taints(node), {})


def test_a_fault_of_it_is_told_beside(make_dra: MakeDra) -> None:
    node = make_dra(1)
    set_aside(node.sim.root, node.uuids()[0])
    node.start()
    eventually(lambda: taints(node).get("gpu-0"), [TAINT])
    node.sim.ctl("xid", gpu="0", number=48)
    eventually(lambda: TAINT in taints(node)["gpu-0"] and len(taints(node)["gpu-0"]) > 1)
    xid = {"key": "gpu.node/xid", "value": "48", "effect": "NoSchedule"}
    assert xid in taints(node)["gpu-0"]


def test_a_damaged_file_takes_no_taint_away(make_dra: MakeDra) -> None:
    node = make_dra(2)
    set_aside(node.sim.root, node.uuids()[0])
    node.start()
    eventually(lambda: set(taints(node)), {"gpu-0", "gpu-0-share"})
    put(node.sim.root, "[]")
    eventually(lambda: node.status()["chores"].get("quarantine"))
    node.kill()
    node.start()
    eventually(lambda: node.status()["chores"].get("quarantine"))
    assert set(taints(node)) == {"gpu-0", "gpu-0-share"}
    assert WHY not in node.log.read_text()
