# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What options of MIG make of a GPU's MIG mode, as the settings beside them need to know it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.layout import partitions

GPU = Gpu(
    0, "GPU-1", "NVIDIA H100 80GB HBM3", "0000:3b:00.0", 0, 1 << 36, (9, 0), True, False, False, 0
)


def options(*entries: tuple[Any, bool], selected: str = "", **more: Any) -> dict[str, Any]:
    """Return options of MIG with a layout of entries for devices, each with MIG mode on or off."""
    layout = [
        {"devices": devices, "mig-enabled": on, "mig-devices": {"1g.10gb": 2} if on else {}}
        for devices, on in entries
    ]
    config = {"it": layout} if entries else None
    how = {"state": "present", "by_label": False, "selected": selected}
    return {**how, "config": config, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (options(("all", True)), True),
        (options(("all", False)), False),
        (options(([0], False), ([1], True)), False),
        (options(([1], True)), None),
        (options(selected="all-disabled"), False),
        (options(selected="all-balanced"), True),
        (options(("all", True), state="absent"), None),
    ],
)
def test_a_layout_turns_mig_mode_on_or_off_or_leaves_it(
    given: dict[str, Any], *, expected: bool | None
) -> None:
    assert partitions(given)(GPU) is expected
