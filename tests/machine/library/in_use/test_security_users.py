# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A process that calls itself like a daemon of the driver is told as a user of the GPUs all the same."""

from __future__ import annotations

import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.devices import Device
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.users import (
    gpu_users,
    open_devices,
)

from tests.fakes.library.fakes import FakeHost
from tests.support import helper_process

NOBODY = 65534
FULL = Device(1, 7)  # /dev/full, which no other test opens
DEVICES = """Character devices:
  4 tty
195 nvidia
195 nvidiactl
511 nvidia-uvm

Block devices:
259 nvidia-disk
"""
NAMES = ("nvidia-persiste", "nv-fabricmanage")
HOLD = "exec 3< {device}; printf %s {name} > /proc/$$/comm; echo there; read x"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """Return a device node of a user, by a name of its own, of what the driver's node stands for here: /dev/full."""
    path = Path(f"/dev/gpu-node-test-{uuid.uuid4().hex}")
    os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(*FULL))
    yield str(path)
    path.unlink()


def told(device: str, name: str, *before: str) -> bool:
    """Return whether a process of that name that has the device open is told, on this very machine."""
    words = [*before, "sh", "-c", HOLD.format(device=device, name=name)]
    running = helper_process.start(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, ready=helper_process.printed("there")
    )
    try:
        found = [(user.pid, user.program) for user in gpu_users(Host(), [FULL])]
        assert (running.pid, name) not in [(user.pid, user.program) for user in gpu_users(Host())]
        return (running.pid, name) in found
    finally:
        running.close()


@pytest.mark.attack("gpu-by-another-name")
@pytest.mark.parametrize("removed", [False, True], ids=["there", "removed"])
def test_a_process_is_a_user_by_the_number_of_the_device_that_it_has_open(
    device: str, removed: bool
) -> None:
    with open(device, "rb"), open("/dev/null", "rb"):
        if removed:
            Path(device).unlink()
        assert FULL in open_devices(Host(), os.getpid())
        assert os.getpid() in [user.pid for user in gpu_users(Host(), [FULL])]
    if removed:
        Path(device).touch()  # for the fixture
    assert FULL not in open_devices(Host(), os.getpid())


@pytest.mark.attack("gpu-by-another-name")
def test_a_file_that_is_named_like_a_device_node_makes_no_user() -> None:
    path = Path(f"/dev/nvidia-gpu-node-test-{uuid.uuid4().hex}")
    path.touch()
    try:
        with path.open("rb"):
            assert os.getpid() not in [user.pid for user in gpu_users(Host())]
    finally:
        path.unlink()


@pytest.mark.attack("gpu-by-another-name")
def test_the_majors_of_the_driver_count_and_no_others() -> None:
    host = FakeHost({"/proc/devices": DEVICES})
    host.devices = {
        "/tmp/uvm": Device(511, 0),
        "/tmp/disk": Device(259, 0),
        "/tmp/tty": Device(4, 0),
    }
    for pid, name in enumerate(("/tmp/uvm", "/tmp/disk", "/tmp/tty", "/dev/nvidia0"), 7):
        host.links[f"/proc/{pid}/fd/3"] = name
    assert sorted(user.pid for user in gpu_users(host)) == [7, 10]


def test_a_socket_or_a_pipe_is_not_asked_for_its_number() -> None:
    host = FakeHost()
    for number, name in enumerate(("socket:[1]", "pipe:[2]", "anon_inode:[eventfd]")):
        host.links[f"/proc/7/fd/{number}"] = name
        host.devices[name] = Device(195, 0)
    assert gpu_users(host) == ()


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
