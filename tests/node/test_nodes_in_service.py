# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine roll-outs: over two nodes of which one fails, with a reboot, and on a node for Slurm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gpunode_tool.testing import Node

from tests.node.pair import Pair
from tests.support.waiting import eventually

UPGRADE = "gpu.node.upgrade_driver"
MARKER = "/var/lib/gpu-node/in-service"
WANTED = {"nvidia_driver_kernel_modules": "proprietary"}
CONFIGS = {"shared": {"version": "v1", "flags": {"migStrategy": "mixed"}}}
BROKEN = "/etc/apt/apt.conf.d/99broken"
HALF = {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}
ROLES = """\
- name: Driver and MIG alone
  hosts: gpu_nodes
  gather_facts: false
  become: true
  roles: [gpu.node.nvidia_driver, gpu.node.mig]
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


def module_type(node: Node) -> str:
    text = node.run("cat", "/proc/driver/nvidia/version")
    return "open" if "Open Kernel Module" in text else "proprietary"


def units(node: Node) -> list[str]:
    names = ("gpu-device-plugin.service", "gpu-node-labels.service")
    return [
        node.run("systemctl", word, name, check=False).strip()
        for name in names
        for word in ("is-active", "is-enabled")
    ]


def boot_id(node: Node) -> str:
    return node.run("cat", "/proc/sys/kernel/random/boot_id")


def test_a_roll_out_over_two_nodes_of_which_one_fails(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    first, second = (
        brought_up(name, "h100-80", 1, device_plugin_configs=CONFIGS)
        for name in ("roll-a", "roll-b")
    )
    both = Pair(tmp_path, first, second)
    first.run("sh", "-c", f"echo 'DPkg::Pre-Invoke {{\"exit 7\";}};' >{BROKEN}")
    failed = both.play(UPGRADE, **WANTED)
    assert not failed.ok
    assert f"{second.name} was not touched: 1 of 2 nodes failed ({first.name})" in failed.message()
    assert "apt-get failed with status 100" in failed.message()
    assert (module_type(first), module_type(second)) == ("open", "open")
    assert units(first) == ["active", "enabled"] * 2
    assert json.loads(first.run("cat", MARKER))["failed"].startswith(
        "nvidia_driver: apt-get failed"
    )
    assert second.run("ls", MARKER, check=False) == ""

    allowed = both.play(UPGRADE, gpu_nodes_max_unavailable=2, **WANTED)
    assert not allowed.ok
    assert (module_type(first), module_type(second)) == ("open", "proprietary")

    first.run("rm", BROKEN)
    killed = both.play(UPGRADE, cut_off_at="Generate the CDI specification", **WANTED)
    assert killed.killed
    again = both.play(UPGRADE, **WANTED)
    assert again.ok, again.message()
    before = [boot_id(node) for node in both.both]
    rebooted = both.play("gpu.node.reboot", gpu_nodes_reboot="always", gpu_nodes_serial="100%")
    assert rebooted.ok, rebooted.message()
    for node, boot in zip(both.both, before, strict=True):
        assert boot_id(node) != boot
        assert module_type(node) == "proprietary"
        assert units(node) == ["active", "enabled"] * 2
        assert "shared" in node.run("ls", "/etc/gpu-node/configs")
        assert node.run("ls", MARKER, check=False) == ""
        eventually(node.allocatable, {"gpu": 1})
    needless = both.play("gpu.node.reboot")
    assert needless.ok, needless.message()
    assert needless.changed() == []


def test_driver_and_mig_without_kubernetes(make_node: Callable[..., Node], tmp_path: Path) -> None:
    """The roles alone are enough, and a change in service adds nothing to what they brought."""
    node = make_node("slurm", "h100-80", 1, mig_config=[HALF])
    playbook = tmp_path / "slurm.yml"
    playbook.write_text(ROLES)
    up = node.play(str(playbook))
    assert up.ok, up.message()
    assert node.run("nvidia-smi", "-L").count("MIG 3g.40gb") == 2
    same = node.play("gpu.node.slurm_node")
    assert same.ok, same.message()
    assert same.changed() == []
    changed = node.play(UPGRADE, **WANTED)
    assert changed.ok, changed.message()
    assert module_type(node) == "proprietary"
    assert node.run("nvidia-smi", "-L").count("MIG 3g.40gb") == 2
    assert "gpu-device-plugin" not in node.run("ls", "/etc/systemd/system")
    assert node.run("ls", "/etc/cdi/nvidia.yaml", check=False) == ""
    assert node.run("ls", MARKER, check=False) == ""
