# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG layouts against the PCI bus: nothing is refused that the module would do with a driver."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu, PciDevice
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.layout import check
from ansible_collections.gpu.node.plugins.module_utils._mig.config import Selection
from ansible_collections.gpu.node.plugins.module_utils._mig.plan import GpuState, plan_gpu
from ansible_collections.gpu.node.plugins.module_utils._mig.products import never, product
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.grids import GPU, RTX_PRO

A100_40, A100_80, A30, H100, T4, RTX = 0x20B0, 0x20B2, 0x20B7, 0x2330, 0x1EB8, 0x2BB1
IDS = [A100_40, A100_80, A30, H100, T4, RTX]
NAMES = [
    "1g.5gb",
    "1g.10gb",
    "2g.10gb",
    "3g.20gb",
    "3g.40gb",
    "7g.80gb",
    "1g.6gb",
    "1g.24gb-me",
    "1c.3g.40gb",
]
NAMES += ["1g.10gb+me", "9g.9gb", "x"]


def bus(*ids: int) -> list[PciDevice]:
    return [
        PciDevice(f"0000:{0x18 + at:02x}:00.0", one, 0x030200, None, "gpu", "")
        for at, one in enumerate(ids)
    ]


def states(devices: list[PciDevice]) -> list[GpuState]:
    """Return the GPUs as a driver would show them, which were never partitioned."""
    return [_state(at, one) for at, one in enumerate(devices)]


def _state(index: int, device: PciDevice) -> GpuState:
    able = not never(device.device_id)
    known = product(device.device_id)
    gpu: Gpu = dataclasses.replace(
        GPU,
        index=index,
        uuid=f"GPU-{index:08d}-0000-0000-0000-000000000000",
        pci_bus_id=device.address,
        mig_capable=able,
        mig_current=False,
        mig_pending=False,
        pci_device_id=device.device_id,
    )
    return GpuState(gpu, known.profiles if known else RTX_PRO if able else (), (), ())


def plan_with_a_driver(selection: Selection, found: list[GpuState]) -> None:
    by_uuid = {one.gpu.uuid: one for one in found}
    for uuid, (enabled, layout) in selection.targets(found).items():
        plan_gpu(by_uuid[uuid], enabled, layout)


devices = st.one_of(
    st.just("all"),
    st.lists(
        st.one_of(
            st.integers(0, 5),
            st.sampled_from(
                [
                    "0000:18:00.0",
                    "00000000:1A:00.0",
                    "GPU-00000001-0000-0000-0000-000000000000",
                    "nonsense",
                ]
            ),
        ),
        max_size=3,
    ),
)
filters = st.sampled_from([None, "0x20B010DE", ["0x233010DE", "0x20B710DE"], "A100", 3])
layouts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8), max_size=3)
entries = st.fixed_dictionaries(
    {"devices": devices, "mig-enabled": st.booleans(), "mig-devices": layouts},
    optional={"device-filter": filters, "unheard": st.none()},
)
configurations = st.one_of(
    st.lists(entries, max_size=3),
    st.dictionaries(st.sampled_from(["a", "all-b"]), st.lists(entries, max_size=2), max_size=2),
    st.none(),
    st.text(max_size=3),
)
selections = st.one_of(
    st.sampled_from(["", "a", "all-disabled", "all-balanced", "all-x"]),
    st.sampled_from([f"all-{one}" for one in NAMES]),
)


@given(config=configurations, selected=selections, ids=st.lists(st.sampled_from(IDS), max_size=5))
def test_what_is_refused_on_the_bus_the_module_would_refuse(
    config: Any, selected: str, ids: list[int]
) -> None:
    node = bus(*ids)
    try:
        selection = Selection.of(config, selected)
    except NodeError:
        return  # which the module's parser, the same, has said
    try:
        check(selection, node)
    except NodeError:
        with pytest.raises(NodeError):
            plan_with_a_driver(selection, states(node))


@pytest.mark.parametrize(
    ("config", "selected", "ids", "said"),
    [
        (
            {"a": [{"devices": [2], "mig-enabled": False}]},
            "",
            [H100, H100],
            "config.a[0].devices: 2 is not",
        ),
        (
            [{"devices": ["0000:19:00.0"], "mig-enabled": False}],
            "",
            [H100],
            "'0000:19:00.0' is not valid",
        ),
        (
            None,
            "all-1g.10gb",
            [T4, T4],
            "selected: 'all-1g.10gb' is not valid: expected nothing for this",
        ),
        (
            None,
            "all-1g.10gb",
            [A30],
            "selected: 'all-1g.10gb' is not valid: expected one of: all-dis",
        ),
        (
            [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 8}}],
            "",
            [A100_40],
            "at most 7 do",
        ),
        (
            [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 1}}],
            "",
            [H100],
            "does not have",
        ),
    ],
)
def test_a_layout_that_the_node_can_not_have(
    config: Any, selected: str, ids: list[int], said: str
) -> None:
    with pytest.raises(NodeError) as caught:
        check(Selection.of(config, selected), bus(*ids))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("config", "selected", "ids"),
    [
        (
            [{"devices": ["GPU-00000009-0000-0000-0000-000000000000"], "mig-enabled": False}],
            "",
            [H100],
        ),
        ([{"devices": ["00000000:18:00.0"], "mig-enabled": False}], "", [H100]),
        (
            [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 1}}],
            "",
            [H100, A100_40],
        ),
        ([{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb+gfx": 1}}], "", [H100]),
        ([{"devices": "all", "mig-enabled": True, "mig-devices": {"1c.3g.40gb": 3}}], "", [H100]),
        (None, "all-1g.24gb", [RTX]),
        (None, "all-disabled", [T4]),
        (None, "all-balanced", [A30]),
        (None, "all-1g.10gb.me", [H100]),
    ],
)
def test_what_only_the_driver_knows_is_left_to_it(
    config: Any, selected: str, ids: list[int]
) -> None:
    check(Selection.of(config, selected), bus(*ids))
