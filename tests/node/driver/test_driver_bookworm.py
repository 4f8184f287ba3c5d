# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on Debian 12 with the genuine packages, from nothing to nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import OPEN, PROPRIETARY, answer, look, play

pytestmark = [pytest.mark.node, pytest.mark.long]


def test_driver_is_installed_changes_its_module_type_and_is_removed(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("drv-bookworm", "a100-40", 1, suite="bookworm")
    before = look(node)

    done = play(node)
    assert done.ok, done.message()
    found = answer(done)
    assert found["installed_version"].startswith("535.")
    assert found["loaded_version"] == found["installed_version"]
    assert found["loaded_module_type"] == "open"
    version = found["packages"][OPEN]
    again = play(node)
    assert again.ok, again.message()
    assert again.changed() == []
    assert len(again.module_calls()) == 2  # to look at the node, and to look at its driver

    # The loaded modules stay until the node is rebooted, which the role does where it may.
    told = play(node, nvidia_driver_kernel_modules="proprietary")
    assert not told.ok
    assert "the open kernel modules are loaded, the packages have the proprietary" in told.message()
    found = answer(told)
    assert found["packages"][PROPRIETARY] == version
    assert OPEN not in found["packages"]
    held = node.run("apt-mark", "showhold").split()
    assert PROPRIETARY in held
    assert OPEN not in held
    node.run("rmmod", "nvidia")
    loaded = play(node, nvidia_driver_kernel_modules="proprietary")
    assert loaded.ok, loaded.message()
    assert answer(loaded)["loaded_module_type"] == "proprietary"

    gone = play(node, nvidia_driver_state="absent")
    assert gone.ok, gone.message()
    assert look(node) == before
