# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU goes from the device plugin to DRA and back, and stays where pods have something of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, PreparedClaim, dump, entry
from gpu_plugin.kubelet.handover import checkpoint_of

from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node


GPU = "nvidia.com/gpu"
PLUGIN, DRA = (f"gpuNode: {{allocation: {who}}}" for who in ("device_plugin", "dra"))
BOTH = "gpuNode: {allocation: both, dra: {devices: ['1']}}"


def problem(node: Node) -> str:
    return str(node.status().get("config_problem") or "")


def hold(node: Node, *gpus: int) -> None:
    """Let the DRA driver's checkpoint have a claim with these GPUs."""
    uuids = [one["uuid"] for one in node.sim.ctl("status")["gpus"]]
    held = [
        PreparedClaim(
            str(number),
            "default",
            f"claim-{number}",
            PREPARED,
            (Device("r", "n", f"gpu-{number}", uuids[number], number),),
        )
        for number in gpus
    ]
    path = checkpoint_of(node.sim.root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump({one.uid: entry(one) for one in held}))


def test_a_gpu_that_a_pod_has_does_not_go_to_dra(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon(PLUGIN)
    node.wait(GPU, 2)
    node.admit("pod-a", gpu=1)
    node.config.write_text(DRA)
    told = eventually(lambda: problem(node))
    for word in ("gpuNode.allocation would give GPU", "pod default/pod-a", "drain the node"):
        assert word in told
    assert "the one before stays" in node.logged()
    unchanged(lambda: node.resources()[GPU], 2, node.looks)
    node.ask("release", pod="pod-a")
    eventually(lambda: not problem(node))
    node.wait(GPU, 0)
    eventually(lambda: GPU not in node.status()["resources"])


def test_a_gpu_of_a_claim_does_not_go_to_the_device_plugin(make_node: MakeNode) -> None:
    node = make_node(2)
    hold(node, 1)
    node.start_kubelet()
    node.start_daemon(BOTH)
    node.wait(GPU, 1)
    node.config.write_text(PLUGIN)
    told = eventually(lambda: problem(node))
    for word in ("gpuNode.allocation would give GPU 1", "claim default/claim-1 with gpu-1"):
        assert word in told
    unchanged(lambda: node.resources()[GPU], 1, node.looks)
    hold(node)
    node.wait(GPU, 2)
    eventually(lambda: problem(node) == "")


def test_a_start_keeps_to_the_owners_that_pods_and_claims_know(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    state = ("--state-directory", str(node.folder / "state"))
    node.start_kubelet()
    node.start_daemon(BOTH, *state)
    node.wait(GPU, 1)
    eventually(lambda: list((node.folder / "state").glob("*.json")))
    hold(node, 1)
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()
    node.start_daemon(PLUGIN, *state)
    eventually(lambda: node.status().get("config_fallback"))
    assert "claim default/claim-1 with gpu-1" in problem(node)
    node.wait(GPU, 1)
    hold(node)
    node.wait(GPU, 2)
