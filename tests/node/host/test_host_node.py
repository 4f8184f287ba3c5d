# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Host settings as a part of a bring-up: written once, told, in force after a reboot, and taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

pytestmark = [pytest.mark.node, pytest.mark.long]
ASKED = {"host_memlock": "unlimited", "host_acs": "disabled"}
UNITS = ("containerd.service", "gpu-host.service")
LOW = "/usr/lib/systemd/system/containerd.service.d/low.conf"


def limit(node: Node) -> str:
    """Return how much memory containers may lock."""
    pid = node.run("systemctl", "show", "--property=MainPID", "--value", UNITS[0]).strip()
    return node.run("awk", "/^Max locked memory/ { print $4 }", f"/proc/{pid}/limits").strip()


def test_host_settings_hold_after_a_reboot_and_go_with_a_teardown(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("host", "h100-80", 1)
    text = "[Service]\\nLimitMEMLOCK=8388608\\n"  # a container may have no limit at all
    node.run("sh", "-c", f"mkdir -p $(dirname {LOW}) && printf '{text}' > {LOW}")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "restart", UNITS[0])
    before = limit(node)
    assert before == "8388608"
    up = node.play(**ASKED)
    assert up.ok, up.message()
    assert limit(node) == before
    again = node.play(**ASKED)
    assert again.ok, again.message()
    assert again.changed() == []
    assert "memlock holds for containerd.service from the next start on" in str(
        list(again.results())
    )
    node.reboot()
    assert limit(node) == "unlimited"
    state = node.run("systemctl", "show", "--property=ActiveState,Result", UNITS[1]).split()
    assert sorted(state) == ["ActiveState=active", "Result=success"]
    settled = node.play(**ASKED)
    assert settled.ok, settled.message()
    assert (settled.changed(), len(settled.module_calls())) == ([], 1)
    assert node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False).ok
    left = node.run("find", "/etc", "-name", "*gpu-node*.conf", "-o", "-name", "gpu-host*").split()
    assert left == []
