# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's devices on the bus."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import architecture, nvidia_device


def test_gpus_and_switches_are_told_apart() -> None:
    files = {"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n", "numa_node": "1\n"}
    gpu = nvidia_device("0000:18:00.0", files)
    assert gpu is not None
    assert (gpu.kind, gpu.architecture, gpu.numa_node) == ("gpu", "hopper", 1)
    switch = nvidia_device(
        "0000:c0:00.0", {**files, "device": "0x22a3", "class": "0x068000", "numa_node": "-1"}
    )
    assert switch is not None
    assert (switch.kind, switch.numa_node) == ("nvswitch", None)
    assert nvidia_device("0000:00:01.0", {**files, "vendor": "0x8086"}) is None
    assert nvidia_device("0000:00:01.0", {"vendor": None}) is None


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (0x20B0, "ampere"),
        (0x20B7, "ampere"),
        (0x2330, "hopper"),
        (0x2335, "hopper"),
        (0x2901, "blackwell"),
        (0x26B9, "ada"),
        (0x1EB8, "turing"),
        (0x1DB5, "volta"),
        (0x15F8, "pascal"),
        (0xFFFF, ""),
    ],
)
def test_the_architecture_follows_from_the_device_id(device: int, name: str) -> None:
    assert architecture(device) == name
