# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on a simulated node with the genuine apt, dpkg and packages, and what gets in their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node, Play

from tests.node.driver import drivers
from tests.node.holding import drive

LOOK = (
    "dpkg -l; apt-mark showhold; find /etc/apt -type f | sort | xargs sha256sum; ls /etc/modprobe.d"
)

pytestmark = [pytest.mark.node, pytest.mark.long]


def play(node: Node, **variables: Any) -> Play:
    return drivers.play(node, nvidia_driver_load=False, **variables)


def test_driver_is_installed_kept_and_removed_also_when_dpkg_is_killed(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("drv-apt", "a100-40", 1)
    before = node.run("sh", "-c", LOOK)
    packages = node.run("dpkg", "-l")

    # A package that the user holds is refused by its name.
    node.run("apt-mark", "hold", "dkms")
    held = node.run("dpkg", "-l")
    refused = play(node)
    assert not refused.ok
    message = refused.message()
    assert "no way to install the driver while dkms is on hold; nothing was changed" in message
    assert node.run("dpkg", "-l") == held
    node.run("apt-mark", "unhold", "dkms")
    assert node.run("dpkg", "-l") == packages

    # Another process has the lock, and then dpkg is killed at work.
    words = ["systemd-run", "--quiet", "--unit=saboteur", "python3", "-c"]
    node.run(*words, (drivers.HERE / "saboteur.py").read_text())
    killed = play(node)
    told = node.run("journalctl", "--unit=saboteur", "--output=cat")
    assert not killed.ok, told
    assert "apt-get failed with status" in killed.message()
    assert "apt waits: True, unpacked: 0\nkilled dpkg" in told, told
    assert node.run("dpkg", "--audit") != ""

    # The next run finishes what was begun.
    finished = play(node)
    assert finished.ok, finished.message()
    (result,) = [found for action, _task, found in finished.results() if "nvidia_driver" in action]
    assert result["steps"][0]["action"] == "repair"
    assert node.run("dpkg", "--audit") == ""
    assert "nvidia-smi" in node.run("apt-mark", "showhold").split()
    assert result["installed_version"] == result["packages"]["nvidia-smi"].split("-")[0]
    again = play(node)
    assert again.ok, again.message()
    assert again.changed() == []
    assert len(again.module_calls()) == 2  # to look at the node, and to look at its driver

    # Another version is loaded: it is exchanged once nobody is on the GPU.
    node.run("/opt/nvsim/bin/nvsimctl", "load", "--version", "535.261.03", "--flavour", "open")
    drive(node, "holder")
    used = play(node, nvidia_driver_reload="when_idle")
    assert not used.ok
    message = used.message()
    assert "version 535.261.03 of the driver is loaded" in message
    assert "not reloaded: rmmod: ERROR: Module nvidia is in use" in message
    node.run("systemctl", "stop", "holder")
    reloaded = play(node, nvidia_driver_reload="when_idle")
    assert reloaded.ok, reloaded.message()
    assert result["installed_version"] in node.run("cat", "/proc/driver/nvidia/version")
    assert node.run("systemctl", "is-active", "nvidia-persistenced").strip() == "active"
    node.run("rmmod", "nvidia")

    # All that was added is taken back, and nothing else.
    assert node.run("sh", "-c", LOOK) != before
    checked = play(node, nvidia_driver_state="absent", cmdline="--check")
    assert checked.ok, checked.message()
    gone = play(node, nvidia_driver_state="absent")
    assert gone.ok, gone.message()
    assert node.run("sh", "-c", LOOK).splitlines() == before.splitlines()
    assert node.run("ls", "/var/lib/gpu-node") == ""
    silent = play(node, nvidia_driver_state="absent")
    assert silent.ok, silent.message()
    assert silent.changed() == []
