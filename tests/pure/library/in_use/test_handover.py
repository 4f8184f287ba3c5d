# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has a GPU that another is to give out."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.allocation import Owners, owners
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import (
    UNREPORTED,
    Allocation,
    Devices,
)
from ansible_collections.gpu.node.plugins.module_utils._node.users.handover import held

from tests.fakes.library.gpu_values import gpu as make_gpu

FIRST, SECOND = (make_gpu(index, minor=index + 8) for index in range(2))
NODE = (Devices(FIRST), Devices(SECOND))


def has(gpu: Gpu, *, dra: bool) -> Allocation:
    by = ("gpu.node", f"gpu-{gpu.minor}-share") if dra else ("nvidia.com/gpu", gpu.uuid)
    return Allocation("team", "train", "main", *by)


@pytest.mark.parametrize("gpu", [FIRST, SECOND])
@pytest.mark.parametrize("dra", [True, False])
@pytest.mark.parametrize(
    "wanted",
    [
        Owners("dra"),
        Owners("device_plugin"),
        *(owners("both", [name]) for name in ("0", FIRST.uuid, FIRST.pci_bus_id.upper())),
    ],
)
def test_only_what_changes_hands_is_held(gpu: Gpu, dra: bool, wanted: Owners) -> None:
    to_dra = wanted.allocation == "dra" or (wanted.allocation == "both" and gpu is FIRST)
    expected = (str(has(gpu, dra=dra)),) if to_dra != dra else ()
    assert held([has(gpu, dra=dra)], NODE, wanted) == expected


def test_a_device_that_is_on_no_gpu_that_answers_may_be_any() -> None:
    lost = Allocation("team", "train", "main", "nvidia.com/gpu", "GPU-lost")
    assert held([lost], NODE, owners("both", ["0"])) == (str(lost),)
    assert held([lost], (), Owners("dra")) == (str(lost),)
    assert held([lost], (), Owners("device_plugin")) == ()


def test_what_is_no_gpu_stands_in_nobodys_way() -> None:
    nic = Allocation("team", "train", "main", "nvidia.com/rdma_shared", "mlx5_0")
    assert held([nic], NODE, Owners("dra")) == ()


@pytest.mark.parametrize("allocation", ["dra", "device_plugin"])
def test_a_device_that_nobody_knows_to_have_given_out_goes_neither_way(allocation: str) -> None:
    forgotten = Allocation("team", "train", "4b1d", UNREPORTED, f"nvidia{FIRST.minor}")
    assert held([forgotten], NODE, Owners(allocation)) == (str(forgotten),)
