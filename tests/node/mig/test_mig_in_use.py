# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A service with a process on a GPU makes way for a MIG layout where it is named, and is in the way where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.holding import drive
from tests.support.waiting import eventually

UNIT = "[Service]\nExecStart=/opt/nvsim/bin/nvsimctl hold 1\n"
CUT = {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "3g.40gb": 1}}

pytestmark = [pytest.mark.node, pytest.mark.long]


def test_a_named_service_is_stopped_for_a_layout(brought_up: Callable[..., Node]) -> None:
    node = brought_up("mig-in-use", "h100-80", 2)
    node.run("sh", "-c", f"printf '{UNIT}' > /etc/systemd/system/holder.service")
    drive(node, "holder")

    def active() -> str:
        return node.run("systemctl", "is-active", "holder", check=False).strip()

    def pid() -> str:
        return node.run("systemctl", "show", "holder", "--property=MainPID")

    first: str = pid()
    wanted: dict[str, Any] = {"mig_config": {"version": "v1", "mig-configs": {"cut": [CUT]}}}
    refused = node.play("gpu.node.mig", **wanted)
    assert not refused.ok
    assert ", holder.service)" in refused.message()
    assert (active(), pid()) == ("active", first)

    done = node.play("gpu.node.mig", gpu_nodes_stop_services=["holder"], **wanted)
    assert done.ok, done.message()
    eventually(node.allocatable, {"gpu": 1, "mig-1g.10gb": 2, "mig-3g.40gb": 1})
    assert active() == "active"
    assert pid() != first
    again = node.play("gpu.node.mig", gpu_nodes_stop_services=["holder"], **wanted)
    assert (again.ok, again.changed()) == (True, [])
