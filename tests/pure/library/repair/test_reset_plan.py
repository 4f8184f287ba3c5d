# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs are reset by one command, which machines reset none, and who is taken to have a GPU that tells nothing."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import FaultSigns, SettingsTold
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import (
    Allocation,
    Devices,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.machine.observe_nvml import (
    NvmlAnswer,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.reset import machine, plan
from ansible_collections.gpu.node.plugins.module_utils._repair.reset.state import (
    ResetGpu,
    ResetState,
    lost_settings,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    Answer,
    GpuSigns,
    NodeSigns,
    Virtual,
)

from tests.fakes.library.grids import GPU

BARE = Virtual.NONE


def found(letter: str, **more: object) -> ResetGpu:
    observed = GpuSigns(f"GPU-{letter}", **{"architecture": "volta", "peers": (), **more})  # type: ignore[arg-type]
    return ResetGpu(observed, f"0000:{letter}{letter}:00.0")


def grouped(state: ResetState, *letters: str, together: bool = True) -> list[list[str]]:
    asked = [one for one in state.gpus if one.uuid[-1] in letters]
    return [
        [gpu.uuid[-1] for gpu in one.gpus]
        for one in plan.group_gpus(state, asked, together=together)
    ]


def cabled() -> ResetState:
    peers = {"a": "c", "c": "a", "b": "d", "d": "b", "e": ""}
    gpus = (
        found(one, peers=tuple(f"GPU-{other}" for other in others)) for one, others in peers.items()
    )
    return ResetState(NodeSigns(580, BARE, False), tuple(gpus))


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("a", [["a", "c"]]),
        ("ac", [["a", "c"]]),
        ("ae", [["a", "c"], ["e"]]),
        ("da", [["a", "c"], ["b", "d"]]),
        ("abcde", [["a", "c"], ["b", "d"], ["e"]]),
    ],
)
def test_gpus_that_go_together_are_one_command(asked: str, wanted: list[list[str]]) -> None:
    assert sorted(grouped(cabled(), *asked)) == wanted


@pytest.mark.parametrize(
    ("node", "architecture", "words"),
    [
        (NodeSigns(580, BARE, False), "", "no rule says how a GPU of this architecture"),
        (NodeSigns(580, None, False), "hopper", "not known whether the node is a virtual"),
        (NodeSigns(580, BARE, True), "ada", "no rule says how a ada GPU"),
    ],
)
def test_machine_that_no_rule_knows_is_refused_and_says_so(
    node: NodeSigns, architecture: str, words: str
) -> None:
    state = ResetState(node, (found("a", architecture=architecture),))
    with pytest.raises(NodeError, match="is not reset") as refused:
        grouped(state, "a")
    assert words in str(refused.value)
    assert "reboot the node" in refused.value.hint


def test_gpu_whose_connections_are_not_known_is_refused_before_ampere() -> None:
    state = ResetState(NodeSigns(580, BARE, False), (found("a", peers=None), found("b")))
    with pytest.raises(NodeError, match="which GPUs NVLink connects it with"):
        grouped(state, "a")


def test_one_gpu_that_is_lost_keeps_those_from_a_reset_that_go_with_it() -> None:
    """Neither would nvidia-smi reset them, and half of a group is none."""
    state = cabled()
    gpus = [
        one._replace(signs=GpuSigns("GPU-c", "volta", answer=Answer.LOST))
        if one.uuid == "GPU-c"
        else one
        for one in state.gpus
    ]
    with pytest.raises(NodeError, match="a reset does not bring it back"):
        grouped(state._replace(gpus=tuple(gpus)), "a")


@pytest.mark.parametrize(
    ("manager", "unit", "nvlink", "stops"),
    [(True, True, 4, True), (True, True, 5, False), (False, False, 4, False)],
)
def test_fabric_manager_makes_way_up_to_nvlink_4(
    manager: bool, unit: bool, nvlink: int, stops: bool
) -> None:
    node = NodeSigns(580, BARE, True, nvlink, fabric_manager=manager)
    assert plan.stops_fabric(ResetState(node, fabric_unit=unit)) == stops


def test_fabric_manager_that_is_no_service_is_not_stopped() -> None:
    node = NodeSigns(580, BARE, True, 4, fabric_manager=True)
    with pytest.raises(NodeError, match="does not run as its service") as refused:
        plan.stops_fabric(ResetState(node))
    assert "container of the driver" in refused.value.hint


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (None, "the driver does not have it any more"),
        (found("a", answer=Answer.LOST), "NVML says that the GPU is lost"),
        (found("a", signs=FaultSigns(recovery=1)), "asks for a reset"),
        (found("a", signs=FaultSigns(recovery=2)), "asks for a reboot"),
        (
            found("a")._replace(reported=SettingsTold({"ecc": True}, ecc_next=False)),
            "its ECC mode changes by a reset",
        ),
        (found("a", signs=FaultSigns(recovery=0, unrepairable=True)), ""),
        (found("a"), ""),
    ],
)
def test_what_is_wrong_after_a_reset(after: ResetGpu | None, words: str) -> None:
    told = plan.fault_after_reset(ResetState(NodeSigns(580, BARE, False)), after)
    assert words in told
    assert bool(told) == bool(words)


def test_what_a_reset_has_taken() -> None:
    had = {"persistence": True, "power_limit": 500_000, "compute_mode": "exclusive_process"}
    has = {**had, "power_limit": 700_000, "compute_mode": "default", "ecc": False}
    before = found("a")._replace(reported=SettingsTold({**had, "ecc": True}, ecc_next=False))
    after = found("a")._replace(reported=SettingsTold(has, ecc_next=False))
    assert lost_settings(before, after) == {"compute_mode": "exclusive_process", "power_limit": 500}
    assert lost_settings(found("a"), after) == {}


def test_device_that_is_on_no_gpu_that_answers_is_on_each_that_tells_nothing() -> None:
    gpu = dataclasses.replace(GPU, uuid="GPU-01234567-89ab-cdef-0123-456789abcdef")
    answers = ResetGpu(GpuSigns(gpu.uuid), gpu.pci_bus_id, devices=Devices(gpu))
    silent = found("b")
    mig = Allocation("ns", "pod", "main", "nvidia.com/gpu", "MIG-0-of-nobody")
    own = Allocation("ns", "pod", "main", "nvidia.com/gpu", gpu.uuid)
    every = (answers, silent)
    assert machine.is_on(own, answers, every)
    assert not machine.is_on(own, silent, every)
    gone = Allocation(
        "ns", "pod", "main", "nvidia.com/mig-1g.10gb", "MIG-01234567-89ab-cdef-0123-456789abcdef"
    )
    assert machine.is_on(gone, silent, every)
    assert not machine.is_on(gone, answers, every)
    assert machine.is_on(mig, answers, every)  # what it stands for is not known


def test_index_of_a_gpu_that_does_not_tell_it_is_known_where_the_others_are_in_order() -> None:
    told = {
        "0000:18:00.0": NvmlAnswer(number=0),
        "0000:29:00.0": NvmlAnswer(),
        "0000:3a:00.0": NvmlAnswer(2),
    }
    assert machine.gpu_number("0000:29:00.0", told) == 1
    odd = {**told, "0000:3a:00.0": NvmlAnswer(number=7)}
    assert machine.gpu_number("0000:29:00.0", odd) is None
    assert machine.gpu_number("0000:3a:00.0", odd) == 7
