# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Settings of GPUs as a part of a bring-up: set once, found by one look where they drift, and given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

pytestmark = [pytest.mark.node, pytest.mark.long]
RULES = {"settings_rules": [{"persistence": True, "power_limit": "80%", "gpu_clocks": 1200}]}
ASKED = "--query-gpu=power.limit,clocks.current.graphics,compute_mode"


def has(node: Node) -> list[str]:
    """Return what nvidia-smi says of each GPU."""
    return node.run("nvidia-smi", ASKED, "--format=csv,noheader,nounits").strip().splitlines()


def test_settings_hold_after_a_bring_up_and_come_back_after_a_reboot(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("settings", "h100-80", 2)
    up = node.play(**RULES)
    assert up.ok, up.message()
    assert has(node) == ["560.00, 1200, Default"] * 2
    again = node.play(**RULES)
    assert again.ok, again.message()
    assert (again.changed(), len(again.module_calls())) == ([], 1)
    node.run("nvidia-smi", "-pl", "500", "-i", "1")
    look = node.play(cmdline="--check", **RULES)
    assert "power_limit from 500 W to 560 W" in str(list(look.results()))
    node.reboot()
    assert has(node) == ["700.00, 1980, Default"] * 2
    assert node.play(**RULES).ok
    assert has(node) == ["560.00, 1200, Default"] * 2
    assert node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False).ok
    assert has(node) == ["700.00, 1980, Default"] * 2
