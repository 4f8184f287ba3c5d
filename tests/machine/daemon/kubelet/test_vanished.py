# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A device that is taken away from a pod all the same is told of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._node.users.allocated import SOCKET, Allocation
from gpu_plugin.kubelet.client import PodResources as Client
from gpu_plugin.kubelet.holders import Answer, Vanished, gone
from gpu_plugin.model.inventory import Inventory, Kind, Problem

from tests.fakes.daemon.gpu_builders import view
from tests.fakes.daemon.scraping import Metrics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


from standin_kubelet.devices import Ledger

UUID = "MIG-694bc14b-8203-5c31-895c-32b929af6227"
OTHER = "MIG-baacebdf-a9de-5d52-84c5-7a71566d2ce6"
MIG = "nvidia.com/mig-1g.10gb"
NONE = Inventory("550", ())


def answer(*devices: str, uuids: tuple[str, ...] = ()) -> Answer:
    """Return what the kubelet says of a pod with these devices, on a node that has others."""
    given = [Allocation("default", "idle", "main", MIG, one) for one in devices]
    return Answer(given, {}, frozenset(uuids))


def test_it_is_told_until_its_pod_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    one = Vanished()
    for _time in range(2):
        one.look(answer(f"{UUID}::0", f"{UUID}::3", OTHER, uuids=(OTHER,)), NONE)
    assert [each["device"] for each in one.describe()] == [f"{UUID}::0"]
    said = capsys.readouterr().err
    assert said.count("a device vanished under a pod") == 1
    assert f"pod default/idle (container main) with {MIG} {UUID}" in said

    one.look(answer(), NONE)
    assert one.allocations == ()
    assert "no pod has the vanished device any more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "inventory",
    [
        Inventory("550", (), absent="gone"),
        Inventory("550", (), strangers=(Problem(Kind.LOST, "fell off the bus"),)),
        Inventory("550", (view(0, on=True, problem="its MIG devices can't be read"),)),
    ],
)
def test_a_driver_or_a_gpu_that_was_never_read_proves_nothing_gone(inventory: Inventory) -> None:
    one = Vanished()
    one.look(answer(UUID), inventory)
    assert one.allocations == ()


def test_a_gpu_that_was_read_and_is_lost_now_hides_nothing() -> None:
    one = Vanished()
    one.look(answer(UUID), Inventory("550", (view(0, "1g.10gb", problem="lost", lost=True),)))
    assert [each.device for each in one.allocations] == [UUID]


def test_devices_of_claims_are_known(tmp_path: Path, ledger: Ledger) -> None:
    """By the driver's name for them, or by their CDI names as before Kubernetes 1.31."""
    ledger.claim("dra", "gpu.nvidia.com", "gpu-0")
    ledger.claim("older", "", "k8s.gpu.nvidia.com/claim=9f-gpu-1")
    found = [(one.pod, one.resource, one.device) for one in Client(tmp_path / SOCKET).allocations()]
    assert found == [
        ("dra", "gpu.nvidia.com", "gpu-0"),
        ("older", "k8s.gpu.nvidia.com/claim", "9f-gpu-1"),
    ]


def test_only_what_is_named_by_a_uuid_can_be_missed() -> None:
    def given(device: str) -> Allocation:
        return Allocation("n", "p", "c", MIG, device)

    names = ("0", "0:1", "gpu-0", "nvidia0/gi1", f"MIG-GPU-{UUID[4:]}/1/0", UUID, OTHER)
    assert gone(map(given, names), frozenset([UUID])) == [given(OTHER)]


def test_on_a_node_status_log_and_metric_say_so(make_node: MakeNode) -> None:
    node, metrics = make_node(2), Metrics()
    node.layout(1, "1g.10gb", "1g.10gb")
    node.start_kubelet()
    address = {"GPU_PLUGIN_METRICS_ADDRESS": metrics.address}
    node.start_daemon("flags: {migStrategy: mixed}", **address)
    node.wait(MIG, 2)
    (device,) = node.admit("idle", **{"mig-1g.10gb": 1})["devices"][MIG]
    assert node.status()["vanished"] == []
    node.layout(1, "3g.40gb")
    found = eventually(lambda: node.status()["vanished"])
    assert [(one["device"], one["pod"]) for one in found] == [(device, "idle")]
    eventually(lambda: metrics.value("gpu_plugin_vanished_devices") == 1)
    assert "a device vanished under a pod" in node.logged()
    shown = node.cli("status", "--status-file", node.status_file, "--pod-resources", node.pods)
    assert f"vanished: {device}, which pod default/idle (main) has" in shown.stdout
    told = node.cli("pods", "--pod-resources", node.pods)
    assert told.stdout == f"pod default/idle (container main) with {MIG} {device}\n"
