# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers leave in the memory that they share: genuine runc and control program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.mps import clients, folders

from tests.fakes.mps.mps_running import STANDIN, MakeMps, Mps, mount_small, unmount_below
from tests.fakes.mps.tenants import NOBODY, Container
from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually, unchanged

SHARES = ("--replicas", 4)
WRITE = "open('/dev/shm/{}', 'w').write('x'); print('written', flush=True); input()"
MOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000) == 0  # CLONE_NEWNS
assert libc.mount(b"none", b"/", None, 0x44000, None) == 0  # MS_PRIVATE | MS_REC
folder = os.path.join(sys.argv[1], "m" * 200)
os.mkdir(folder)
while len(open("/proc/self/mountinfo").read()) < 1 << 20:
    for _again in range(500):
        assert libc.mount(b"/run", folder.encode(), None, 0x1000, None) == 0  # MS_BIND
print("mounted", flush=True)
sys.stdin.read()
"""
WARNING = "shared memory of MPS can't be cleared"
NEST = """
import os
os.chdir("/dev/shm")
for level in range(5000):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").write("x")
"""


@pytest.fixture(autouse=True)
def _all_processes() -> None:
    if not clients.sees_all():
        pytest.skip(
            "processes of containers are looked at in the first namespace of processes only"
        )


class Tenants:
    """Containers that have a device's shared memory."""

    def __init__(self, shm: Path) -> None:
        self.shm, self._made = shm, []

    def begin(self, name: str) -> subprocess.Popen[str]:
        """Start one that writes a file and stays."""
        process = self._container().start(WRITE.format(name))
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        return process

    def run(self, script: str) -> str:
        """Run a script in a container to its end and return its output."""
        return self._container().run(script)

    def _container(self) -> Container:
        mount = {"host": str(self.shm), "container": "/dev/shm", "read_only": False}
        self._made.append(Container([mount], user=NOBODY))
        return self._made[-1]

    def left(self) -> list[str]:
        return sorted(one.name for one in self.shm.iterdir())

    def end(self) -> None:
        for one in self._made:
            one.end()


def shared(mps: Mps) -> Tenants:
    uuid = mps.uuid()
    mps.run(uuid, *SHARES)
    mps.ready(uuid)
    return Tenants(mps.root / uuid / "shm")


@pytest.fixture
def tenants(mps: Mps) -> Iterator[Tenants]:
    made = shared(mps)
    yield made
    made.end()


@pytest.mark.attack("shared-memory-of-tenants")
def test_what_tenants_left_is_gone_once_no_container_has_the_memory(
    mps: Mps, tenants: Tenants
) -> None:
    first, second = tenants.begin("a"), tenants.begin("b")
    (tenants.shm / "folder").mkdir()
    (tenants.shm / "folder/file").touch()
    first.communicate("\n", timeout=LIMIT)
    unchanged(tenants.left, ["a", "b", "folder"], lambda: mps.asked(mps.uuid()))
    second.communicate("\n", timeout=LIMIT)
    eventually(tenants.left, [])


@pytest.mark.attack("shared-memory-of-tenants")
def test_a_server_without_clients_ends_before_its_memory_is_emptied(
    make_mps: MakeMps, tmp_path: Path
) -> None:
    """It has files there that the next one makes again."""
    server = helper_process.start(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, ready=helper_process.executed
    )
    (tmp_path / "server").write_text(str(server.pid))
    mps = make_mps(command=STANDIN, STANDIN_CLIENTS=1, STANDIN_SERVER=tmp_path / "server")
    found = shared(mps)
    (found.shm / "of-the-server").touch()
    assert server.wait(LIMIT)
    eventually(found.left, [])


@pytest.mark.attack("shared-memory-kept-full")
def test_deeply_nested_folders_are_removed_with_the_files_of_another_tenant(
    mps: Mps, tenants: Tenants
) -> None:
    neighbour = tenants.begin("a")
    assert tenants.run(NEST) == ""
    assert neighbour.communicate("\n", timeout=LIMIT)[0] == ""
    eventually(tenants.left, [])
    assert mps.ready(mps.uuid())["problem"] == ""
    assert "Traceback" not in mps.log.read_text()


@pytest.mark.attack("shared-memory-kept-full")
def test_shares_stay_advertised_while_shared_memory_can_not_be_cleared(
    mps: Mps, tenants: Tenants
) -> None:
    """A file system that is mounted in it is what root can't remove."""
    mount_small(tenants.shm / "busy", "1m")
    (tenants.shm / "file").touch()
    eventually(tenants.left, ["busy"])

    def shown() -> tuple[str, str]:
        status = mps.status(mps.uuid())
        return status["state"], status["problem"]

    eventually(lambda: WARNING in mps.log.read_text())
    unchanged(shown, ("ready", ""), lambda: mps.asked(mps.uuid()))
    assert mps.log.read_text().count(WARNING) == 1


@pytest.mark.attack("shared-memory-kept-full")
def test_what_can_not_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    mount_small(tmp_path / "busy", "1m")
    for name in ("a", "b/c/d", "e/f"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    try:
        with pytest.raises(OSError, match="busy"):
            folders.clear(tmp_path, float("inf"))
        assert [path.name for path in tmp_path.iterdir()] == ["busy"]
    finally:
        unmount_below(tmp_path)


@pytest.mark.attack("shared-memory-kept-full")
def test_clearing_follows_no_link_and_leaves_what_is_new(tmp_path: Path) -> None:
    victim, shared_memory = tmp_path / "victim", tmp_path / "shm"
    victim.mkdir()
    (victim / "file").touch()
    (shared_memory / "folder").mkdir(parents=True)
    (shared_memory / "link").symlink_to(victim)
    (shared_memory / "folder/link").symlink_to(victim)
    folders.clear(shared_memory, 0)
    assert sorted(path.name for path in shared_memory.iterdir()) == ["folder", "link"]
    folders.clear(shared_memory, float("inf"))
    assert list(shared_memory.iterdir()) == []
    assert (victim / "file").exists()


@pytest.mark.attack("shared-memory-kept-full")
def test_a_process_with_too_many_mounts_to_read_takes_no_shares(
    mps: Mps, tenants: Tenants, tmp_path: Path
) -> None:
    """It may have the memory, which is cleared once it has ended."""
    with helper_process.start(
        [sys.executable, "-c", MOUNT, tmp_path],
        ready=helper_process.printed("mounted"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        (tenants.shm / "file").touch()

        def shown() -> tuple[str, str, list[str]]:
            status = mps.status(mps.uuid())
            return status["state"], status["problem"], tenants.left()

        unchanged(shown, ("ready", "", ["file"]), lambda: mps.asked(mps.uuid()))
        process.communicate()
    eventually(tenants.left, [])
