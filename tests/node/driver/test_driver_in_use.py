# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that is asked for in the inventory does not come under running jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import PLAY, answer, look, play
from tests.node.holding import hold

pytestmark = [pytest.mark.node, pytest.mark.long]


def test_bring_up_does_not_change_the_driver_of_a_node_in_service(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("in-use", "h100-80", 2)
    wanted = {"nvidia_driver_kernel_modules": "proprietary", "nvidia_driver_reboot": "auto"}
    hold(node, "job")
    before, booted = look(node), node.run("cat", "/proc/sys/kernel/random/boot_id")

    checked = node.play(cmdline="--check", **wanted)
    assert checked.ok, checked.message()
    found = checked.plan()["driver"]
    assert found["result"]["refused"] is True
    assert "(python3, job.service)" in found["blocked_by"][0]
    assert [step["action"] for step in found["steps"] if "idle_gpu" in step["needs"]] == ["install"]

    refused = node.play(**wanted)
    assert not refused.ok
    message = refused.message()
    assert "GPUs are in use, and the driver was not touched" in message
    assert "systemctl stop job.service" in message
    assert "gpu.node.upgrade_driver" in message
    assert refused.changed() == []
    assert look(node) == before
    assert node.run("systemctl", "is-active", "job").strip() == "active"
    assert node.allocatable() == {"gpu": 2}

    absent = play(node, nvidia_driver_state="absent")
    assert not absent.ok
    assert "GPUs are in use, and the driver was not touched" in absent.message()
    assert look(node) == before

    # What takes nothing goes on.
    same = node.play(nvidia_driver_hold=False)
    assert same.ok, same.message()

    late = play(
        node,
        nvidia_driver_on_busy="wait",
        nvidia_driver_wait_timeout=4,
        nvidia_driver_hold=False,
        **wanted,
    )
    assert "after 4 s GPUs are in use" in late.message()

    # The packages change, and the node is not rebooted under the job.
    waited = node.play_while(
        lambda: node.run("systemctl", "stop", "job"),
        PLAY,
        nvidia_driver_on_busy="wait",
        nvidia_driver_kernel_modules="proprietary",
    )
    assert "must be rebooted" in waited.message()
    assert "nvidia-kernel-dkms" in answer(waited)["packages"]
    hold(node, "job")
    boot = play(node, **wanted)
    assert "It was not, since GPUs are in use by process" in boot.message()
    assert node.run("cat", "/proc/sys/kernel/random/boot_id") == booted
    assert node.run("systemctl", "is-active", "job").strip() == "active"
