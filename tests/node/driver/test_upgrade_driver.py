# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node in service gets another driver: who has a GPU open is asked, nobody is stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.holding import hold

PLAYBOOK = "gpu.node.upgrade_driver"
MARKER = "/var/lib/gpu-node/in-service"
HOOK = """\
---
- name: Write down that the hook ran
  ansible.builtin.shell: echo {word} $(systemctl is-active gpu-device-plugin.service) >> /root/hooks
  changed_when: true
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


def module_type(node: Node) -> str:
    text = node.run("cat", "/proc/driver/nvidia/version")
    return "open" if "Open Kernel Module" in text else "proprietary"


def labels(node: Node) -> list[str]:
    """Whether the node is labelled, now and after the next boot."""
    unit = "gpu-node-labels.service"
    asked = ("is-active", "is-enabled")
    return [node.run("systemctl", one, unit, check=False).strip() for one in asked]


def test_driver_is_changed_in_service(brought_up: Callable[..., Node], tmp_path: Path) -> None:
    node = brought_up("upgrade", "h100-80", 2)
    hooks: dict[str, Any] = {}
    for word in ("before", "after"):
        path = tmp_path / f"{word}.yml"
        path.write_text(HOOK.format(word=word))
        hooks[f"nvidia_driver_hooks_{word}"] = [str(path)]
    assert (module_type(node), node.allocatable()) == ("open", {"gpu": 2})

    same = node.play(PLAYBOOK, **hooks)
    assert same.ok, same.message()
    assert same.changed() == []
    assert node.run("ls", "/root/hooks", check=False) == ""

    hold(node, "client")
    wanted = {"nvidia_driver_kernel_modules": "proprietary", **hooks}
    busy = node.play(PLAYBOOK, **wanted)
    assert not busy.ok
    assert "GPUs are in use, and the driver was not touched" in busy.message()
    assert "(python3, client.service)" in busy.message()
    assert node.run("systemctl", "is-active", "client").strip() == "active"
    assert (module_type(node), node.allocatable()) == ("open", {"gpu": 2})
    assert labels(node) == ["active", "enabled"]

    node.run("systemctl", "stop", "client")
    free = node.play(PLAYBOOK, **wanted)
    assert free.ok, free.message()
    assert (module_type(node), node.allocatable()) == ("proprietary", {"gpu": 2})
    assert labels(node) == ["active", "enabled"]
    assert node.run("cat", "/root/hooks").split("\n")[:3] == [
        "before active",
        "before active",
        "after active",
    ]
    assert node.run("ls", MARKER, check=False) == ""
    assert "nvidia.com/gpu" in node.run("cat", "/etc/cdi/nvidia.yaml")


def test_upgrade_that_was_cut_off_is_finished(brought_up: Callable[..., Node]) -> None:
    """Kill ansible when the driver is changed and the daemon still stopped."""
    node = brought_up("upgrade-killed", "h100-80", 2)
    wanted = {"nvidia_driver_kernel_modules": "proprietary"}
    assert node.play(PLAYBOOK, cut_off_at="Wait until the driver answers", **wanted).killed
    state = node.run("systemctl", "is-active", "gpu-device-plugin.service", check=False)
    assert state.strip() == "inactive"
    again = node.play(PLAYBOOK, **wanted)
    assert again.ok, again.message()
    assert node.allocatable() == {"gpu": 2}
    assert node.run("ls", MARKER, check=False) == ""


def test_daemon_comes_back_where_the_change_fails_and_the_driver_works(
    brought_up: Callable[..., Node],
) -> None:
    """Let apt fail at work, which no simulation tells."""
    node = brought_up("upgrade-fails", "h100-80", 2)
    wanted = {"nvidia_driver_kernel_modules": "proprietary"}
    broken = "/etc/apt/apt.conf.d/99broken"
    node.run("sh", "-c", f"echo 'DPkg::Pre-Invoke {{\"exit 7\";}};' >{broken}")
    failed = node.play(PLAYBOOK, **wanted)
    assert not failed.ok
    assert "apt-get failed with status 100" in failed.message()
    assert (module_type(node), node.allocatable()) == ("open", {"gpu": 2})
    assert labels(node) == ["active", "enabled"]
    assert MARKER in node.run("ls", MARKER)
    node.run("rm", broken)
    again = node.play(PLAYBOOK, **wanted)
    assert again.ok, again.message()
    assert (module_type(node), node.allocatable()) == ("proprietary", {"gpu": 2})
    assert node.run("ls", MARKER, check=False) == ""
