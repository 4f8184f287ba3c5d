# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What stands in the way of apt: a lock that stays, a mirror that breaks off, and disks that are full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import HERE, answer, play

pytestmark = [pytest.mark.node, pytest.mark.long]

LOCK = (
    "import fcntl, signal\nlock = open('/var/lib/dpkg/lock-frontend', 'a')\n"
    "fcntl.lockf(lock, fcntl.LOCK_EX)\nprint('locked', flush=True)\nsignal.pause()\n"
)
ARCHIVE = "/var/cache/apt/fresh"
CONFIG = "/etc/apt/apt.conf.d/99fault"
FIRMWARE = "/usr/lib/firmware/nvidia"


@contextmanager
def running(node: Node, unit: str, text: str) -> Iterator[None]:
    """Keep a script running on the node."""
    node.run("systemd-run", "--quiet", f"--unit={unit}", "python3", "-c", text)
    try:
        yield
    finally:
        node.run("systemctl", "stop", unit)


@contextmanager
def configured(node: Node, *lines: str) -> Iterator[None]:
    """Let apt read some more configuration."""
    node.run(
        "sh", "-c", f"mkdir -p {ARCHIVE}/partial; printf '%s\\n' \"$@\" > {CONFIG}", "sh", *lines
    )
    try:
        yield
    finally:
        node.run("rm", CONFIG)


@contextmanager
def small(node: Node, folder: str, size: str) -> Iterator[None]:
    """Let a folder be on a file system with little room."""
    node.run("mkdir", "-p", folder)
    node.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield
    finally:
        node.run("umount", folder)


def test_what_stops_apt_is_told_and_the_next_run_goes_on(make_node: Callable[..., Node]) -> None:
    node = make_node("drv-faults", "a100-40", 1)
    before = node.run("dpkg", "-l")

    with running(node, "locker", LOCK):
        locked = play(node, nvidia_driver_lock_timeout=3)
    assert not locked.ok
    message = locked.message()
    assert "another package manager is at work on the node, for longer than 3 s" in message
    assert "raise lock_timeout" in message
    assert node.run("dpkg", "-l") == before

    fresh = f'Dir::Cache::archives "{ARCHIVE}";'
    with small(node, ARCHIVE, "1m"), configured(node, fresh):
        full = play(node)
    assert not full.ok
    assert "enough free space" in full.message()
    assert node.run("dpkg", "-l") == before

    # The mirror delivers one package and a half.
    proxy = 'Acquire::http::Proxy "http://127.0.0.1:3142";'
    mirror = (HERE / "cutting_mirror.py").read_text()
    with running(node, "mirror", mirror), configured(node, fresh, proxy, 'Acquire::Retries "0";'):
        cut = play(node)
    told = node.run("journalctl", "--unit=mirror", "--output=cat")
    assert "cut package 2" in told, told
    assert not cut.ok
    assert "Failed to fetch" in cut.message()
    assert node.run("dpkg", "-l") == before

    # All is fetched, and does not fit: what dpkg began is finished once there is room.
    with small(node, FIRMWARE, "2m"):
        stopped = play(node)
        state = node.run("dpkg", "-l", "firmware-nvidia-gsp")
    assert not stopped.ok
    assert "No space left on device" in stopped.message()
    assert "\nii " not in state
    finished = play(node)
    assert finished.ok, finished.message()
    assert answer(finished)["loaded_version"] == answer(finished)["installed_version"]
    assert node.run("dpkg", "--audit") == ""
    again = play(node)
    assert again.ok, again.message()
    assert again.changed() == []
