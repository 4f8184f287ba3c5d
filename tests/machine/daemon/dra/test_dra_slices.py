# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the DRA driver's process publishes of a simulated node, and that preparing claims changes nothing of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from gpu_plugin._shared._node.users.allocated import SOCKET
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.fakes.dra.driving import POOL, DraNode
from tests.fakes.kubernetes.standin_api import NODE
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.dra.driving import MakeDra

Json = dict[str, Any]


def devices(node: DraNode) -> dict[str, Json]:
    """What is published, by name."""
    with node.api.news:
        found = [node.api.slices[name] for name in sorted(node.api.slices)]
    return {one["name"]: one for part in found for one in part["spec"].get("devices", ())}


def settled(node: DraNode, count: int) -> dict[str, Json]:
    eventually(lambda: len(devices(node)) == count and not node.status()["published"]["problem"])
    return devices(node)


def test_the_driver_publishes_what_the_simulated_gpus_are(make_dra: MakeDra) -> None:
    node = make_dra(2)
    node.start()
    found = settled(node, 4)
    assert list(found) == ["gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"]
    told = {
        key: next(iter(value.values())) for key, value in found["gpu-1-share"]["attributes"].items()
    }
    expected = {
        "uuid": node.uuids()[1],
        "gpu.nvidia.com/brand": "Nvidia",
        "gpu.nvidia.com/architecture": "Hopper",
        "gpu.nvidia.com/driverVersion": "550.163.1",
        "gpu.nvidia.com/cudaDriverVersion": "12.4.0",
        "gpu.nvidia.com/cudaComputeCapability": "9.0.0",
        "index": 1,
    }
    assert expected.items() <= told.items()
    assert found["gpu-0-share"]["capacity"]["memory"]["value"] == "81559Mi"
    published = {"generation": 1, "slices": 2, "devices": 4, "problem": ""}
    eventually(lambda: node.status()["published"], published)


def test_preparing_and_a_restart_write_no_slice(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    settled(node, 25)
    before = node.api.writes()
    claim = node.claim("part", "gpu-0-mig-1g10gb-19-3")
    node.start_pod(claim)
    unchanged(node.api.writes, before, node.looks)
    node.kill()
    node.start()
    settled(node, 25)
    node.end_pod(claim)
    unchanged(node.api.writes, before, node.looks)


def test_an_instance_of_the_administrator_is_published_with_its_uuid(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.layout(0, "3g.40gb")
    node.start()
    eventually(
        lambda: "gpu-0-mig-3g40gb-9-0" in devices(node) or "gpu-0-mig-3g40gb-9-4" in devices(node)
    )
    standing = [one for one in devices(node).values() if "uuid" in one["attributes"]]
    (uuid,) = [one["attributes"]["uuid"]["string"] for one in standing]
    assert uuid.startswith("MIG-")
    assert "gpu-0-mig-7g80gb-0-0" not in devices(node)


def test_a_sick_gpu_is_tainted_and_its_pods_go_on(make_dra: MakeDra) -> None:
    node = make_dra(2)
    node.start()
    settled(node, 4)
    claim = node.claim("whole", "gpu-1")
    node.start_pod(claim)
    node.sim.ctl("xid", gpu="1", number=79)
    eventually(lambda: "taints" in devices(node)["gpu-1"])
    taint, verdict = devices(node)["gpu-1"]["taints"]
    asked = ("gpu.node/recovery-action", "reboot", "NoSchedule")
    assert (verdict["key"], verdict["value"], verdict["effect"]) == asked
    assert taint["effect"] == "NoSchedule"
    assert (taint["key"], taint.get("value")) in {
        ("gpu.node/xid", "79"),
        ("gpu.node/gpu-lost", None),
    }
    assert "taints" not in devices(node)["gpu-0"]
    assert node.file(claim).exists()


def test_a_gpu_of_a_pod_is_not_published_until_the_pod_is_gone(
    make_dra: MakeDra,
) -> None:
    node = make_dra(2)
    ledger = Ledger(node.root / "device-plugins/checkpoint")
    ledger.checkpoint.parent.mkdir()
    pods = PodResources(node.root / SOCKET, ledger)
    pods.start()
    ledger.give("pod-a", {"nvidia.com/gpu": [node.uuids()[0]]})
    node.start()
    unchanged(lambda: dict(node.api.slices), {}, node.looks)
    ledger.take_back("pod-a")
    settled(node, 4)
    pods.stop()


def test_a_gpu_of_a_claim_stays_and_others_go_back(make_dra: MakeDra) -> None:
    node = make_dra(2)
    node.start()
    settled(node, 4)
    claim = node.claim("whole", "gpu-1")
    node.start_pod(claim)
    node.config.write_text("gpuNode: {allocation: device_plugin}")
    eventually(lambda: "claim default/whole with gpu-1" in str(node.status()["config_problem"]))
    assert len(devices(node)) == 4
    one = "dra: {devices: ['1'], enforcement: none}"
    node.config.write_text(f"gpuNode: {{allocation: both, {one}}}")
    settled(node, 2)
    node.end_pod(claim)
    node.config.write_text("gpuNode: {allocation: device_plugin}")
    eventually(lambda: node.api.slices == {})
    eventually(lambda: node.status()["published"]["problem"], "")


def test_an_earlier_releases_pool_stays_while_a_claim_has_a_device_of_it(make_dra: MakeDra) -> None:
    """To the scheduler, what is allocated of one pool is free in another."""
    node = make_dra(1)
    node.start()
    settled(node, 2)
    assert node.pools() == {POOL}
    claim = node.claim("one", "gpu-0-share", pool=NODE)  # allocated before the driver was exchanged
    node.start_pod(claim)
    (given,) = node.kubelet.claims["default", "one"].devices
    assert given.pool_name == NODE
    assert node.pools() == {POOL}
    node.kill()
    for one in node.api.slices.values():
        one["spec"]["pool"]["name"] = NODE  # as an earlier release had it
    node.start()
    settled(node, 2)
    assert node.pools() == {NODE}
    eventually(lambda: (NODE, "gpu-0-share") in node.plugin.health)
    node.end_pod(claim)
    eventually(lambda: node.pools() == {POOL} and len(devices(node)) == 2)
    assert len({*node.api.slices}) == 2


def test_shares_stay_published_until_no_claim_has_one(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    settled(node, 2)
    claim = node.claim("one", "gpu-0-share")
    node.start_pod(claim)
    node.config.write_text(
        "gpuNode: {allocation: dra, dra: {enforcement: none, publish: gpu}}\nversion: v1\n"
    )
    eventually(
        lambda: "gpuNode.dra.publish can't be gpu now" in str(node.status()["config_problem"])
    )
    assert list(devices(node)) == ["gpu-0", "gpu-0-share"]
    node.end_pod(claim)
    assert list(settled(node, 1)) == ["gpu-0"]
    (only,) = node.api.slices.values()
    assert "consumesCounters" not in only["spec"]["devices"][0]


def test_slices_outlive_a_restart_and_go_with_a_driver_that_is_told_so(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    before = settled(node, 2)
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert devices(node) == before
    node.start()
    settled(node, 2)
    node.signal(signal.SIGUSR1)
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert devices(node) == {}
