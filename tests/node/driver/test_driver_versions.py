# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Up, down and back: two genuine versions on Debian 13, and local ones that cannot be installed."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import OPEN, PROPRIETARY, USER_SPACE, answer, look, play, script

pytestmark = [pytest.mark.node, pytest.mark.long]

BACKPORTS = (
    "sed 's/^Suites: .*/Suites: trixie-backports/' /etc/apt/sources.list.d/gpu-node.sources"
    " > /etc/apt/sources.list.d/backports.sources; apt-get -q update"
)
LOST = "mv /etc/apt/sources.list.d/gpu-node.sources /root; apt-get -q update; apt-get clean"
FOUND = "mv /root/gpu-node.sources /etc/apt/sources.list.d; apt-get -q update"
DRIVER = ("libcuda1", "libnvidia-ml1", "nvidia-smi")
GONE = ("not-installed", "config-files")


def log(node: Node) -> list[str]:
    return node.run("cat", "/var/log/dpkg.log").splitlines()


def windows(lines: list[str], kernels: set[str]) -> list[str]:
    """Return the lines of dpkg's log after which a part of the driver was not on the node.

    ``kernels`` are the packages of kernel modules that are there before the first line.
    """
    found = []
    for line in lines:
        _day, _time, *words = line.split(" ")
        if words[0] != "status":
            continue
        state, name = words[1], words[2].split(":")[0]
        if name in (OPEN, PROPRIETARY):
            (kernels.discard if state in GONE else kernels.add)(name)
        if not kernels or (name in DRIVER and state in GONE):
            found.append(line)
    return found


def test_a_driver_version_is_changed_in_one_transaction_or_taken_back(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("drv-versions", "a100-40", 1)
    first = play(node)
    assert first.ok, first.message()
    packages = answer(first)["packages"]
    old = packages[OPEN]
    node.run("sh", "-c", BACKPORTS)

    # Up, down and to the other module type, and at no moment without a driver.
    versions = node.run("apt-cache", "madison", OPEN)
    new = next(word for word in versions.split() if "~bpo13" in word)
    seen = len(log(node))
    up = play(node, nvidia_driver_version=new)
    assert up.ok, up.message()
    assert answer(up)["packages"][OPEN] == new
    assert {answer(up)["packages"][name] for name in USER_SPACE} == {new}
    down = play(node, nvidia_driver_version=old)
    assert down.ok, down.message()
    assert answer(down)["packages"] == packages
    assert windows(log(node)[seen:], {OPEN}) == []
    assert "nvidia-smi" in node.run("apt-mark", "showhold").split()

    # A version whose kernel modules fail gives way to the one before, which is then untouched.
    script(node, "local_packages.py", "550.163.99-1", OPEN, OPEN, *USER_SPACE)
    before, record = look(node), node.run("cat", "/var/lib/gpu-node/nvidia_driver.json")
    seen = len(log(node))
    refused = play(node, nvidia_driver_version="550.163.99")
    assert not refused.ok
    found = answer(refused)
    assert found["rolled_back"] is True, found
    assert "so the previous ones were restored" in found["msg"]
    assert "the test wants this package to fail" in found["cause"]
    assert windows(log(node)[seen:], {OPEN}) == []
    assert look(node) == before
    assert node.run("cat", "/var/lib/gpu-node/nvidia_driver.json") == record
    assert node.run("dpkg", "--audit") == ""
    still = play(node)
    assert still.ok, still.message()
    assert still.changed() == []

    # Where the previous version is nowhere to be had, the message says so and what to run.
    node.run("sh", "-c", LOST)
    stuck = play(node, nvidia_driver_version="550.163.99", nvidia_driver_manage_sources=False)
    assert not stuck.ok
    found = answer(stuck)
    assert found["rolled_back"] is False, found
    assert found["packages_left"][OPEN] == "550.163.99-1, half configured"
    assert f"{OPEN} is 550.163.99-1, half configured" in found["cause"]
    assert f"{OPEN}={old}" in found["hint"]
    node.run("sh", "-c", FOUND)
    words = shlex.split(found["hint"].split("run on the node: ")[1])
    node.run(words[0], "-y", *words[1:])
    assert node.run("dpkg", "--audit") == ""
    mended = play(node, nvidia_driver_version=old)
    assert mended.ok, mended.message()
    assert answer(mended)["packages"] == packages

    # Another version is loaded: the role reboots where it may, and goes on once NVML answers.
    node.run("rmmod", "nvidia")
    node.run("/opt/nvsim/bin/nvsimctl", "load", "--version", "535.261.03", "--flavour", "open")
    boot = node.run("cat", "/proc/sys/kernel/random/boot_id")
    rebooted = play(node, nvidia_driver_version=old, nvidia_driver_reboot="auto")
    assert rebooted.ok, rebooted.message()
    tasks = [task for _action, task, _result in rebooted.results()]
    assert tasks[-1] == "Wait until NVML answers"
    assert node.run("cat", "/proc/sys/kernel/random/boot_id") != boot
    result = answer(rebooted)
    assert result["loaded_version"] == result["installed_version"] != "535.261.03"
    assert not result["reboot_required"]
    assert node.run("systemctl", "is-active", "nvidia-persistenced").strip() == "active"
