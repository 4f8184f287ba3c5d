# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What DCGM's configuration enforces, and which values it would undo."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu, SettingsTold
from ansible_collections.gpu.node.plugins.module_utils._settings.dcgm import refuse, targets, uuids
from ansible_collections.gpu.node.plugins.module_utils._settings.state import GpuState
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.played.dcgmi import configuration, discovery

UUIDS = ["GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"]
GPU = Gpu(0, UUIDS[0], "NVIDIA H100", "0000:3b:00.0", 0, 1 << 36, (9, 0), True, False, False, 0)
STATE = GpuState(GPU, SettingsTold({}), {})
EVERY = {
    "Compute Mode": "E. Process",
    "ECC Mode": "Disabled",
    "Memory Application Clock": "1593",
    "SM Application Clock": "1200",
    "Power Limit": "400",
    "Power Profile": "1,7",
}


def test_what_dcgm_enforces_is_read_gpu_by_gpu() -> None:
    assert targets(configuration({0: {}, 1: EVERY})) == {
        1: {
            "compute_mode": "exclusive_process",
            "ecc": False,
            "memory_clocks": (1593, 1593),
            "gpu_clocks": (1200, 1200),
            "power_limit": 400_000,
            "power_profiles": ("max_q", "llm_training"),
        }
    }
    assert uuids(discovery(UUIDS)) == dict(enumerate(UUIDS))


@pytest.mark.parametrize(
    "word", ["Not Specified", "Not Found", "Not Configured", "Unknown", "****"]
)
def test_what_is_not_specified_is_not_enforced(word: str) -> None:
    assert targets(configuration({0: dict.fromkeys(EVERY, word)})) == {}
    assert targets(configuration({0: {"SM Application Clock": "0"}})) == {}


@pytest.mark.parametrize(
    ("name", "value", "enforced", "fits"),
    [
        ("power_limit", 400_000, 400_000, True),
        ("power_limit", 550_000, 400_000, False),
        ("power_limit", 550_000, None, True),
        ("ecc", True, False, False),
        ("compute_mode", "default", "exclusive_process", False),
        ("gpu_clocks", (300, 1200), (1200, 1200), True),
        ("gpu_clocks", (300, 900), (1200, 1200), False),
        ("gpu_clocks", None, (1200, 1200), True),
        ("power_profiles", ("max_q",), ("max_q", "llm_training"), False),
    ],
)
def test_another_value_than_the_enforced_one_is_refused_by_name(
    name: str, value: Any, enforced: Any, fits: bool
) -> None:
    if fits:
        refuse(STATE, name, value, enforced)
        return
    with pytest.raises(NodeError, match="DCGM's configuration enforces") as refused:
        refuse(STATE, name, value, enforced)
    assert f"GPU 0 ({UUIDS[0]}): {name} can't be set to" in str(refused.value)
    assert "systemctl restart nvidia-dcgm" in str(refused.value)


ODD = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9) | st.integers(),
    lambda more: (
        st.lists(more, max_size=3)
        | st.dictionaries(
            st.sampled_from(["body", "header", "children", "Target", "value", *EVERY]),
            more,
            max_size=4,
        )
    ),
    max_leaves=9,
)


@given(st.lists(ODD.map(str) | ODD.map(json.dumps), max_size=3))
def test_whatever_dcgmi_says_is_understood_or_says_nothing(said: list[str]) -> None:
    for found in targets("\n".join(said)).values():
        assert found
    assert isinstance(uuids("\n".join(said)), dict)
