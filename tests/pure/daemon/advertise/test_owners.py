# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Of a GPU that the DRA driver gives to containers the device plugin advertises nothing."""

from __future__ import annotations

from dataclasses import replace

from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, PreparedClaim
from gpu_plugin._shared._node.users.allocated import Allocation
from gpu_plugin.advertise.decide import decide
from gpu_plugin.config.allocation import Dra
from gpu_plugin.config.configuration import parse
from gpu_plugin.kubelet.handover import moved, taken
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import inventory, view

MIXED = "flags: {migStrategy: mixed}\n"
NODE = inventory(view(0), view(1), view(2, "1g.10gb", "1g.10gb"), view(3, on=True))
NAMES = st.sampled_from([name for n in range(4) for name in (str(n), f"0000:{n + 1:02x}:00.0")])


@drawn(st.lists(NAMES, min_size=1))
def test_a_gpu_is_the_device_plugins_or_dras(names: list[str]) -> None:
    config = parse(f"{MIXED}gpuNode: {{allocation: both, dra: {{devices: {names}}}}}")
    advertised = decide(NODE, {}, config)
    seen = {one.gpu_uuid for devices in advertised.resources.values() for one in devices}
    dras = {int(name, 10) if len(name) == 1 else int(name[5:7], 16) - 1 for name in names}
    assert seen == {f"GPU-{n}" for n in range(3) if n not in dras}
    assert not any(f"GPU {n} " in note for n in dras for note in advertised.notes)


def test_dra_alone_leaves_the_device_plugin_nothing() -> None:
    advertised = decide(NODE, {}, parse(f"{MIXED}gpuNode: {{allocation: dra}}"))
    assert (advertised.resources, advertised.notes, advertised.refusal) == ({}, (), None)


def test_a_strategy_looks_at_the_device_plugins_gpus_alone() -> None:
    text = "flags: {migStrategy: single}\ngpuNode: {allocation: both, dra: {devices: [2, 3]}}"
    assert len(decide(NODE, {}, parse(text)).resources["nvidia.com/gpu"]) == 2


def test_a_gpu_that_is_not_there_is_named() -> None:
    config = parse("gpuNode: {allocation: both, dra: {devices: [0, 9]}}")
    note = "gpuNode.dra.devices names 9, which this node does not have"
    assert note in decide(NODE, {}, config).notes
    assert note not in decide(replace(NODE, absent="no driver"), {}, config).notes


def given(pod: str, device: str, resource: str = "nvidia.com/gpu") -> Allocation:
    return Allocation("default", pod, "main", resource, device)


def claim(name: str, device: str, gpu: str) -> PreparedClaim:
    return PreparedClaim(
        name, "default", name, PREPARED, (Device("r", "node-1", device, gpu, int(gpu[-1])),)
    )


PODS = (given("a", "0::3"), given("b", "0000:02:00.0"), given("c", "gpu-2-share", "gpu.node"))
CLAIMS = (claim("d", "gpu-2-share", "GPU-2"), claim("e", "gpu-9", "GPU-9"))


def test_who_has_a_gpu_that_goes_to_another_is_named() -> None:
    plugin, dra, both = Dra(), Dra("dra"), Dra("both", ("1", "2"))

    def users(who: Dra) -> list[tuple[int, str]]:
        return [(gpu.index, text) for gpu, text in taken(NODE, who, PODS, CLAIMS)]

    had = {"a": "0", "b": "0000:02:00.0"}
    first, second = (
        f"pod default/{pod} (container main) with nvidia.com/gpu {device}"
        for pod, device in had.items()
    )
    third = "claim default/d with gpu-2-share"
    assert users(plugin) == [(2, third)]
    assert users(dra) == [(0, first), (1, second)]
    assert users(both) == [(1, second)]
    assert [moved(NODE, plugin, one) for one in (plugin, both, dra)] == [False, True, True]
    assert not moved(NODE, both, Dra("both", ("gpu-1", "0000:03:00.0", "7")))
