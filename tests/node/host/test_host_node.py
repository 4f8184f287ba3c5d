# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Host settings as a part of a bring-up: written once, in force after a reboot, and taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

pytestmark = [pytest.mark.node, pytest.mark.long]
ASKED = {"host_memlock": "unlimited", "host_acs": "disabled"}
UNITS = ("containerd.service", "gpu-host.service")


def test_host_settings_hold_after_a_reboot_and_go_with_a_teardown(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("host", "h100-80", 1)
    up = node.play(**ASKED)
    assert up.ok, up.message()
    again = node.play(**ASKED)
    assert again.ok, again.message()
    # Nothing has restarted them, and no run does.
    assert (again.changed(), len(again.module_calls())) == ([], 1)
    assert f"memlock waits for a restart of {UNITS[0]}" in str(list(again.results()))
    node.reboot()
    # What it runs with is bounded by the container that the node is.
    limit = node.run("systemctl", "show", "--property=LimitMEMLOCK", "--value", UNITS[0]).strip()
    assert limit == "infinity"
    state = node.run("systemctl", "show", "--property=ActiveState,Result", UNITS[1]).split()
    assert sorted(state) == ["ActiveState=active", "Result=success"]
    settled = node.play(**ASKED)
    assert settled.ok, settled.message()
    assert settled.changed() == []
    part = settled.plan()["host"]
    assert (part["steps"], part["error"]) == ([], {})
    assert node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False).ok
    left = node.run("find", "/etc", "-name", "zz-gpu-node.*", "-o", "-name", "gpu-host*").split()
    assert left == []
