# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers leave in the memory that they share: genuine runc and control program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.mps import clients

from tests.fakes.mps.mps_running import STANDIN, MakeMps, Mps
from tests.fakes.mps.tenants import NOBODY, Container
from tests.support.waiting import LIMIT, eventually, unchanged

SHARES = ("--replicas", 4)
WRITE = "open('/dev/shm/{}', 'w').write('x'); print('written', flush=True); input()"


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
        mount = {"host": str(self.shm), "container": "/dev/shm", "read_only": False}
        self._made.append(Container([mount], user=NOBODY))
        process = self._made[-1].start(WRITE.format(name))
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        return process

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
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "server").write_text(str(server.pid))
    mps = make_mps(command=STANDIN, STANDIN_CLIENTS=1, STANDIN_SERVER=tmp_path / "server")
    found = shared(mps)
    (found.shm / "of-the-server").touch()
    assert server.wait(LIMIT)
    eventually(found.left, [])
