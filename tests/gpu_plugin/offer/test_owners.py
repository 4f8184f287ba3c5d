# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Of a GPU that the DRA driver gives to containers the device plugin advertises nothing."""

from __future__ import annotations

from dataclasses import replace

from gpu_builders import inventory, view
from gpu_plugin.config.configuration import parse
from gpu_plugin.offer.decide import decide
from hypothesis import given
from hypothesis import strategies as st

MIXED = "flags: {migStrategy: mixed}\n"
NODE = inventory(view(0), view(1), view(2, "1g.10gb", "1g.10gb"), view(3, on=True))
NAMES = st.sampled_from([name for n in range(4) for name in (str(n), f"0000:{n + 1:02x}:00.0")])


@given(st.lists(NAMES, min_size=1))
def test_issue_17_2_a_gpu_is_the_device_plugins_or_dras(names: list[str]) -> None:
    config = parse(f"{MIXED}gpuNode: {{allocation: both, dra: {{devices: {names}}}}}")
    offered = decide(NODE, {}, config)
    seen = {one.gpu_uuid for devices in offered.resources.values() for one in devices}
    dras = {int(name, 10) if len(name) == 1 else int(name[5:7], 16) - 1 for name in names}
    assert seen == {f"GPU-{n}" for n in range(3) if n not in dras}
    assert not any(f"GPU {n} " in note for n in dras for note in offered.notes)


def test_issue_17_2_dra_alone_leaves_the_device_plugin_nothing() -> None:
    offered = decide(NODE, {}, parse(f"{MIXED}gpuNode: {{allocation: dra}}"))
    assert (offered.resources, offered.notes, offered.refusal) == ({}, (), None)


def test_issue_17_2_a_strategy_looks_at_the_device_plugins_gpus_alone() -> None:
    text = "flags: {migStrategy: single}\ngpuNode: {allocation: both, dra: {devices: [2, 3]}}"
    assert len(decide(NODE, {}, parse(text)).resources["nvidia.com/gpu"]) == 2


def test_issue_17_2_a_gpu_that_is_not_there_is_named() -> None:
    config = parse("gpuNode: {allocation: both, dra: {devices: [0, 9]}}")
    note = "gpuNode.dra.devices names 9, which this node does not have"
    assert note in decide(NODE, {}, config).notes
    assert note not in decide(replace(NODE, absent="no driver"), {}, config).notes
