# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A process that calls itself like a daemon of the driver is told as a user of the GPUs all the same."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.users import gpu_users

from tests.fakes.library.fakes import FakeHost

NOBODY = 65534
NAMES = ("nvidia-persiste", "nv-fabricmanage")
HOLD = "exec 3< {device}; printf %s {name} > /proc/$$/comm; echo there; read x"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def device() -> Iterator[str]:
    """Return a file that is named like a device node of the driver."""
    path = Path(f"/dev/nvidia-gpu-node-test-{uuid.uuid4().hex}")
    path.touch(mode=0o644)
    yield str(path)
    path.unlink()


def told(device: str, name: str, *before: str) -> bool:
    """Tell whether a process of that name that has the device open is told, on this very machine."""
    words = [*before, "sh", "-c", HOLD.format(device=device, name=name)]
    running = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        return (running.pid, name) in [(one.pid, one.program) for one in gpu_users(Host())]
    finally:
        running.kill()
        running.communicate()


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize("name", NAMES)
def test_a_users_process_is_told_whatever_its_name(device: str, name: str) -> None:
    assert told(device, name, "setpriv", "--reuid", str(NOBODY), "--clear-groups")


@pytest.mark.attack("cgroup-taken-for-a-pod")
def test_root_of_a_container_is_told_whatever_the_name(device: str) -> None:
    assert told(device, NAMES[0], "unshare", "--mount")


@pytest.mark.attack("cgroup-taken-for-a-pod")
def test_daemon_that_root_started_by_hand_is_none_of_the_users(device: str) -> None:
    assert not told(device, NAMES[0])


def machine(**cgroup: str) -> FakeHost:
    host = FakeHost({"/proc/1/cgroup": "0::/init.scope\n", "/proc/7/comm": f"{NAMES[0]}\n"})
    host.links["/proc/7/fd/3"] = "/dev/nvidia0"
    host.files["/proc/7/cgroup"] = cgroup["path"]
    return host


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize(
    "path",
    [
        "0::/user.slice/user-1000.slice/system.slice/nvidia-persistenced.service",
        "0::/system.slice/nvidia-persistenced.service.d",
        "0::/system.slice/mine.service/nvidia-persistenced.service",
    ],
)
def test_a_cgroup_that_is_named_like_the_units_is_not_the_units(path: str) -> None:
    assert [(one.pid, one.program) for one in gpu_users(machine(path=path))] == [(7, NAMES[0])]


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize("unit", ["nvidia-persistenced", "nvidia-fabricmanager"])
def test_units_of_the_driver_are_none_of_the_users(unit: str) -> None:
    assert gpu_users(machine(path=f"0::/system.slice/{unit}.service\n")) == ()


@pytest.mark.attack("terminal-escapes")
def test_names_of_users_steer_no_terminal() -> None:
    host = machine(path="0::/")
    host.files["/proc/7/comm"] = "\x1b]0;x\x07\n\x9b\n"
    assert list(map(str, gpu_users(host))) == [r"7 (\x1b]0;x\x07\n\x9b)"]
