# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that somebody has set aside are tainted, with all that is made of them, and their pods go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.gate import PATH as GATE
from ansible_collections.gpu.node.plugins.module_utils._node.gate import Gate, Held, dump_gate
from standin_kubelet.dra import DraError

from tests.fakes.daemon.quarantined import WHY, put, set_aside
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.dra.driving import DraNode, MakeDra

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
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


def put_gate(node: DraNode, gate: Gate) -> None:
    """Write the node's gate, as gpu.node.accept does."""
    path = node.sim.root / GATE.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(dump_gate(gate))
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize("is_checked", [False, True])
def test_claims_of_the_boot_before_wait_for_the_gate(make_dra: MakeDra, is_checked: bool) -> None:
    node = make_dra(2)
    node.start()
    first, second = node.claim("first", "gpu-0"), node.claim("second", "gpu-1")
    names = node.start_pod(first)
    node.start_pod(second)
    node.kill()
    for path in node.cdi.glob("gpu.node-*"):  # as a boot does
        path.unlink()
    held = {node.uuids()[0]: Held("not accepted: another board")} if is_checked else {}
    put_gate(node, Gate(BOOT if is_checked else "boot-0", gpus=held, open_gpus=(node.uuids()[1],)))
    node.kubelet = node.kubelet.restart()
    node.start()
    with pytest.raises(DraError, match=r"gpu-0 can't be used.*not accepted"):
        node.start_pod(first)
    assert not node.file(first).exists()
    if is_checked:
        assert node.start_pod(second)
    put_gate(node, Gate(BOOT, open_gpus=tuple(node.uuids())))
    eventually(lambda: taints(node), {})
    assert node.start_pod(first) == names


def test_pod_that_runs_keeps_its_claim_when_the_gate_closes(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("runs", "gpu-0")
    names = node.start_pod(claim)
    put_gate(node, Gate(BOOT, gpus={node.uuids()[0]: Held("not accepted: memory")}))
    eventually(lambda: len(taints(node)), 2)
    assert node.start_pod(claim) == names  # as the kubelet asks again once it was restarted
