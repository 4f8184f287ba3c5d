# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Options of the kernel modules on a simulated node: refused, in force, overruled by another file, and changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import answer, look, play

NAME = "NVreg_RestrictProfilingToAdminUsers"
OTHER = "/etc/modprobe.d/zz-local.conf"

pytestmark = [pytest.mark.node, pytest.mark.long]


def profiling(node: Node) -> str:
    """Return what the loaded driver has of the option, under the name by which it shows it."""
    lines = node.run("cat", "/proc/driver/nvidia/params").splitlines()
    return next(one.partition(": ")[2] for one in lines if one.startswith("RmProfilingAdminOnly"))


def test_options_are_in_force_after_a_load_and_what_wins_over_them_is_named(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("drv-options", "a100-40", 1)
    before = look(node)
    misspelt = play(node, nvidia_driver_module_options={NAME[:-1]: 0})
    assert not misspelt.ok
    assert f"did you mean {NAME}?" in misspelt.message()
    assert look(node) == before

    wanted = {"nvidia_driver_module_options": {NAME: 0}, "nvidia_driver_reload": "when_idle"}
    first = play(node, **wanted)
    assert first.ok, first.message()
    assert profiling(node) == "0"
    again = play(node, **wanted)
    assert again.changed() == []

    # Another file wins, now at the next load, and after it no load is asked for that would not help.
    node.run("sh", "-c", f"echo options nvidia {NAME}=1 > {OTHER}")
    later = play(node, **wanted)
    assert later.changed() == []
    warned = f"{NAME}=0 is lost at the next load: {OTHER} sets 1. Next step: remove it there"
    assert warned in answer(later)["warnings"]
    node.run("sh", "-c", "systemctl stop nvidia-persistenced; rmmod nvidia; modprobe nvidia")
    assert profiling(node) == "1"
    overruled = play(node, **wanted)
    assert overruled.ok, overruled.message()
    assert not any("reload" in str(step) for step in answer(overruled)["steps"])
    assert f"is not in force: it is 1, as {OTHER} sets 1" in str(answer(overruled)["warnings"])

    # The file is right and the driver was not loaded since: told, or loaded again where that is allowed.
    node.run("rm", OTHER)
    told = play(node, **{**wanted, "nvidia_driver_reload": "never"})
    assert f"loaded with other options: {NAME} is 1, not 0" in told.message()
    loaded = play(node, **wanted)
    assert loaded.ok, loaded.message()
    assert profiling(node) == "0"
    assert play(node, **wanted).changed() == []
