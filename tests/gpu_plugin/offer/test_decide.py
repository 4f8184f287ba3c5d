# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node offers is decided in one place, from values alone."""

from __future__ import annotations

from dataclasses import replace

from gpu_builders import inventory, view
from gpu_plugin.config.configuration import parse
from gpu_plugin.offer.decide import decide, without_driver
from gpu_plugin.offer.problem import Kind
from hypothesis import given
from hypothesis import strategies as st

GPU = "nvidia.com/gpu"
FIRST, SECOND = (f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in range(2))
NODE = inventory(
    *(
        replace(one, gpu=replace(one.gpu, uuid=uuid))
        for one, uuid in ((view(0), FIRST), (view(1), SECOND))
    )
)
SHARED = parse("sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: ['0']}]}}")
PROBLEMS = st.sampled_from(["", "its MPS daemon is about to start", "its limits change"])


def test_all_that_is_said_comes_with_what_is_offered() -> None:
    offered = decide(inventory(view(0, on=True)), parse("flags: {migStrategy: mixed}"))
    assert offered.resources == {}
    assert offered.notes == ("GPU 0 (GPU-0) is in MIG mode and has no MIG devices",)
    assert offered.refusal is None


def test_a_strategy_that_does_not_fit_is_a_refusal_and_no_exception() -> None:
    offered = decide(inventory(view(0), view(1, "1g.10gb")), parse("flags: {migStrategy: single}"))
    assert "needs MIG mode on all GPUs" in str(offered.refusal)
    assert (offered.resources, offered.mps) == ({}, {})


def test_what_mps_can_not_share_has_a_problem_of_its_kind() -> None:
    offered = decide(NODE, parse("sharing: {mps: {resources: [{name: gpu, replicas: 50}]}}"))
    assert "50 shares can't be made of this device" in offered.unsharable
    (devices,) = offered.resources.values()
    assert {one.problem.kind for one in devices if one.problem} == {Kind.UNSHARABLE}
    assert offered.mps == {}


def test_without_its_driver_a_node_offers_devices_that_nobody_gets() -> None:
    offered = decide(without_driver(NODE, "the NVIDIA driver is not loaded"), SHARED)
    (devices,) = offered.resources.values()
    assert len(devices) == 3
    assert {(one.problem.kind, str(one.problem)) for one in devices if one.problem} == {
        (Kind.NO_DRIVER, "the NVIDIA driver is not loaded")
    }


@given(PROBLEMS, PROBLEMS)
def test_mps_holds_back_its_own_shares_and_changes_no_other_problem(one: str, other: str) -> None:
    offered = decide(NODE, SHARED)
    problems = {uuid: why for uuid, why in ((FIRST, one), ("GPU-9", other)) if why}
    (devices,) = offered.held_back(problems, lambda _uuid: True).values()
    told = {device.id: str(device.problem or "") for device in devices}
    assert told == {f"{FIRST}::0": one, f"{FIRST}::1": one, SECOND: ""}
    lost = replace(offered, resources=decide(without_driver(NODE, "gone"), SHARED).resources)
    (devices,) = lost.held_back(problems, lambda _uuid: True).values()
    assert {str(device.problem) for device in devices} == {"gone"}


def test_refused_by_the_clients_of_mps_nothing_is_offered() -> None:
    refused = decide(NODE, SHARED).refused("GPU-0: its last client has not ended")
    assert (refused.resources, refused.mps) == ({}, {})
    assert "sharing.mps can't be as it is: GPU-0" in str(refused.refusal)
