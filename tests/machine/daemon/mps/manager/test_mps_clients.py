# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mps run`` with servers and clients, which the genuine program has with CUDA only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.mps.settings import Settings
from nvsim.testing import start

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import Mps
from tests.support.paths import MPS_CONTROL
from tests.support.waiting import eventually


@pytest.fixture
def mps(tmp_path: Path) -> Iterator[Mps]:
    """A manager whose daemons have two clients that never end, unless a test says otherwise."""
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    program = tmp_path / "control"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {MPS_CONTROL} "$@"\n')
    program.chmod(0o755)
    made = Mps(start("h100-80", 1), program)
    yield made
    made.stop()
    made.sim.stop()


def test_servers_and_clients_are_told(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--memory", "900M", "--drain", 1)
    status = mps.ready(uuid)
    deadline = time.monotonic() + 5
    while not status["servers"] and time.monotonic() < deadline:
        status = mps.status(uuid)
    assert status["servers"] == [{"pid": 4242, "clients": [7, 9]}]
    assert status["clients"] == 2
    assert status["limits"]["read_back"] == {
        "default_device_pinned_mem_limit": "900M",
        "default_active_thread_percentage": "25.0",
    }
    text = mps.told()
    assert f"{uuid}: ready since " in text
    assert "4 shares of 900 MiB and 25% of the threads, restarts: 0" in text
    assert "  server 4242, clients: 7, 9" in text
    words = [sys.executable, "-m", "gpu_plugin", "status", "--mps-root", str(mps.root)]
    words += ["--status-file", str(mps.folder / "none")]
    whole = subprocess.run(words, env=mps.env, capture_output=True, text=True, check=False)
    assert whole.returncode == 3  # no plugin runs here
    assert "  server 4242, clients: 7, 9" in whole.stdout
    mps.drop(uuid)
    time.sleep(1)
    assert mps.status(uuid)["clients"] == 2  # they are waited for
    manager.send_signal(signal.SIGINT)
    assert manager.wait(15) == 0
    assert mps.told() == "no device is shared by MPS\n"


MULTI_USER = "-multiuser-server"


def test_servers_for_all_users_where_the_program_has_them(mps: Mps) -> None:
    uuid = mps.uuid()
    words_ = ("--replicas", 4, "--memory", "900M", "--no-shm", "--multi-user")
    mps.run(uuid, *words_, STANDIN_TAKES=MULTI_USER)
    status = mps.ready(uuid)
    words = Path(f"/proc/{status['daemon']}/cmdline").read_text().split("\0")
    assert words[-3:] == ["-f", MULTI_USER, ""]
    assert status["multi_user"] is True
    assert "multi-user server" in mps.told()


def test_servers_of_one_user_where_nothing_else_is_asked_for(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm", STANDIN_TAKES=MULTI_USER)
    status = mps.ready(uuid)
    assert MULTI_USER not in Path(f"/proc/{status['daemon']}/cmdline").read_text()
    assert status["multi_user"] is False
    assert "multi-user server" not in mps.told()


@pytest.mark.parametrize(
    ("takes", "problem"),
    [
        ("-other", f"has no servers for several users: it does not take {MULTI_USER}"),
        ("any", "is not known: it takes any option"),
    ],
)
def test_program_that_has_no_servers_for_all_users(mps: Mps, takes: str, problem: str) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm", "--multi-user", STANDIN_TAKES=takes)
    assert problem in mps.failed(uuid)
    assert mps.mode() == 0


def test_never_ready_with_a_limit_that_was_not_taken(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--memory", "900M", STANDIN_DEAF="1")
    problem = mps.failed(uuid)
    assert problem == (
        "default_device_pinned_mem_limit was not taken: 900M was asked for, nothing was read back"
    )
    time.sleep(0.5)
    assert f"MPS of {uuid}: ready" not in mps.log.read_text()
    assert mps.end(manager) == 0


def test_killed_manager_is_told_as_crashed(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--memory", "900M")
    mps.ready(uuid)
    manager.kill()
    manager.wait()
    (state,) = json.loads(mps.told("--json"))
    assert (state["device"], state["state"]) == (uuid, "crashed")
    assert "problem: its manager was killed" in mps.told()


def test_full_disk_at_a_restart_of_the_daemon_ends_neither(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.root.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "tiny", mps.root], check=True
    )
    try:
        manager = mps.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm")
        daemon = mps.ready(uuid)["daemon"]
        with (mps.root / "filler").open("wb", buffering=0) as stream:
            with contextlib.suppress(OSError):
                while True:
                    stream.write(b"x" * 4096)
        kill(daemon)
        log = "the next manager would not adopt this control daemon"
        eventually(lambda: log in mps.log.read_text())
        eventually(lambda: mps.log.read_text().count(f"MPS of {uuid}: ready") == 2)
        assert "the state can't be written" in mps.log.read_text()
        (mps.root / "filler").unlink()
        manager.send_signal(signal.SIGINT)
        assert manager.wait(15) == 0
        assert mps.mode() == 0
    finally:
        subprocess.run(["umount", "-l", mps.root], check=True)


def test_program_that_went_away_is_waited_for(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm", "--interval", 60)
    daemon = mps.ready(uuid)["daemon"]
    aside = mps.program.rename(mps.program.with_name("aside"))
    kill(daemon)
    eventually(lambda: mps.status(uuid)["problem"].startswith("can't start"))
    aside.rename(mps.program)
    assert mps.ready(uuid)["daemon"] != daemon
    mps.program.unlink()
    kill(mps.ready(uuid)["daemon"])
    eventually(lambda: mps.status(uuid)["problem"].startswith("can't start"))
    assert mps.end(manager) == 0
    assert mps.mode() == 0


def test_processes_without_mps_are_named(mps: Mps) -> None:
    holder = mps.sim.hold(0)
    mps.run(mps.uuid(), "--replicas", 4, "--memory", "900M", "--no-shm")
    mps.ready(mps.uuid())
    assert f"pids={holder.pid}\n" in mps.log.read_text()
    mps.sim.let_go(holder)


def test_clients_have_the_time_that_was_given_to_end(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--drain", 2, "--memory", "1G", STANDIN_BUSY="1")
    mps.ready(uuid)
    begun = time.monotonic()
    manager.send_signal(signal.SIGINT)
    assert manager.wait(15) == 0
    assert 2 <= time.monotonic() - begun < 8
    assert "told to quit -t 2" in mps.log.read_text()
    assert mps.mode() == 0


def test_a_pause_keeps_what_containers_have_mounted(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 8, "--memory", "4GiB", "--threads", 10, "--drain", 1)
    assert mps.ready(uuid)["limits"]["asked"] == {"memory_mib": 4096, "threads": 10.0}
    manager.send_signal(signal.SIGINT)
    assert manager.wait(15) == 0
    assert (mps.mode(), os.path.ismount(mps.root / uuid / "shm")) == (0, True)
    second = mps.manage()
    mps.ready(uuid)
    assert mps.mode() == 3
    mps.drop(uuid)
    second.send_signal(signal.SIGINT)
    assert second.wait(15) == 0
    assert (mps.mode(), os.path.ismount(mps.root / uuid / "shm")) == (0, False)


def test_settings_that_can_not_be_used_are_said_and_change_nothing(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--memory", "900M")
    before = mps.ready(uuid)
    kept = mps.settings / f"{uuid}.settings.json"
    for text, words in (
        ("GPU_MPS_REPLICAS=4\n", "it is no JSON"),
        (Settings(4).to_json().replace('"drain"', '"drian"'), "'drian' is no setting"),
    ):
        mps.write(uuid, text)
        told = f"the settings in {kept} can't be used"
        eventually(
            lambda told=told, words=words: (
                told in mps.log.read_text() and words in mps.log.read_text()
            )
        )
    assert mps.ready(uuid)["daemon"] == before["daemon"]
