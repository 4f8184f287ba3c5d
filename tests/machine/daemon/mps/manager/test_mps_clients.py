# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mps run`` with servers and clients, which the genuine program has with CUDA only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.mps.control import require_multi_user

from tests.fakes.daemon.running import fill
from tests.fakes.mps.mps_running import (
    DEFAULT,
    EXCLUSIVE_PROCESS,
    STANDIN,
    ControlProgram,
    MakeMps,
    Mps,
    mount_small,
)
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT, eventually, unchanged

MULTI_USER = "-multiuser-server"
SHARES = ("--replicas", 4, "--memory", "900M")


@pytest.fixture
def mps(make_mps: MakeMps) -> Mps:
    """A manager whose daemons have two clients that never end, unless a test says otherwise."""
    return make_mps(command=STANDIN)


def test_servers_and_clients_are_told_and_waited_for(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES, "--drain", 1)
    mps.ready(uuid)
    status = eventually(lambda: mps.status(uuid) if mps.status(uuid)["servers"] else {})
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
    unchanged(lambda: mps.status(uuid)["clients"], 2, mps.rounds, 5)
    manager.send_signal(signal.SIGINT)
    assert manager.wait(LIMIT) == 0
    assert mps.told() == "no device is shared by MPS\n"


@pytest.mark.parametrize(
    "command", ["device_pinned_mem_limit 4242 0", "active_thread_percentage 4242"]
)
def test_limits_of_a_server_that_a_client_changed_are_set_again(mps: Mps, command: str) -> None:
    """With driver 580, root and the server's own user may do so by the socket that each client has."""
    uuid = mps.uuid()
    mps.run(uuid, *SHARES)
    mps.ready(uuid)
    eventually(lambda: mps.status(uuid)["servers"])
    said = "a client changed the limits of its MPS server, setting them again"
    assert said not in mps.log.read_text()
    before, other = ("900M", "40G") if "mem" in command else ("25.0", "90")
    assert mps.answer(uuid, f"get_{command}") == before
    mps.answer(uuid, f"set_{command} {other}")
    eventually(lambda: said in mps.log.read_text())
    eventually(lambda: mps.answer(uuid, f"get_{command}") == before)
    assert mps.status(uuid)["clients"] == 2


def test_servers_for_all_users_where_the_program_has_them_and_they_are_asked_for(
    make_mps: MakeMps,
) -> None:
    mps = make_mps(2, command=STANDIN, STANDIN_TAKES=MULTI_USER)
    one, all_users = mps.uuid(0), mps.uuid(1)
    mps.run(one, *SHARES, "--no-shm")
    mps.run(all_users, *SHARES, "--multi-user")
    found = {device: mps.ready(device) for device in (one, all_users)}
    command = {
        device: Path(f"/proc/{status['daemon']}/cmdline").read_text().split("\0")
        for device, status in found.items()
    }
    assert command[all_users][-3:] == ["-f", MULTI_USER, ""]
    assert MULTI_USER not in command[one]
    assert [found[device]["multi_user"] for device in (one, all_users)] == [False, True]
    assert mps.told().count("multi-user server") == 1


@pytest.mark.parametrize(
    ("takes", "problem"),
    [
        ("-other", f"has no servers for several users: it does not take {MULTI_USER}"),
        ("any", "is not known: it takes any option"),
    ],
)
def test_program_that_has_no_servers_for_all_users(
    tmp_path: Path, takes: str, problem: str
) -> None:
    program = ControlProgram(tmp_path / "bin", STANDIN, STANDIN_TAKES=takes)
    with pytest.raises(NodeError, match=problem):
        require_multi_user(str(program.path))


def test_never_ready_with_a_limit_that_was_not_taken(make_mps: MakeMps) -> None:
    mps = make_mps(command=STANDIN, STANDIN_DEAF=1)
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES)
    problem = mps.failed(uuid)
    assert problem == (
        "default_device_pinned_mem_limit was not taken: 900M was asked for, nothing was read back"
    )
    eventually(lambda: mps.status(uuid)["restarts"] > 1)
    assert f"MPS of {uuid}: ready" not in mps.log.read_text()
    assert mps.end(manager) == 0


def test_killed_manager_is_told_as_crashed(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES)
    mps.ready(uuid)
    manager.kill()
    (state,) = json.loads(mps.told("--json"))
    assert (state["device"], state["state"]) == (uuid, "crashed")
    assert "problem: its manager was killed" in mps.told()


def test_full_disk_at_a_restart_of_the_daemon_ends_neither(mps: Mps) -> None:
    uuid = mps.uuid()
    mount_small(mps.root, "128k")
    manager = mps.run(uuid, *SHARES, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    filler = fill(mps.root)
    kill(daemon)
    log = "the next manager would not adopt this control daemon"
    eventually(lambda: log in mps.log.read_text())
    eventually(lambda: mps.log.read_text().count(f"MPS of {uuid}: ready") == 2)
    assert "the state can't be written" in mps.log.read_text()
    filler.unlink()
    manager.send_signal(signal.SIGINT)
    assert manager.wait(LIMIT) == 0
    assert mps.mode() == DEFAULT


def test_program_that_went_away_is_waited_for(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES, "--no-shm", "--interval", 60)
    daemon = mps.ready(uuid)["daemon"]
    aside = mps.program.rename(mps.program.with_name("aside"))
    kill(daemon)
    eventually(lambda: mps.status(uuid)["problem"].startswith("can't start"))
    aside.rename(mps.program)
    another = mps.ready(uuid)["daemon"]
    assert another != daemon
    mps.program.unlink()
    kill(another)
    eventually(lambda: mps.status(uuid)["problem"].startswith("can't start"))
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT


def test_processes_without_mps_are_named(mps: Mps) -> None:
    holder = mps.sim.hold(0)
    try:
        mps.run(mps.uuid(), *SHARES, "--no-shm")
        mps.ready(mps.uuid())
        assert f"pids={holder.pid}\n" in mps.log.read_text()
    finally:
        mps.sim.let_go(holder)


def test_clients_have_the_time_that_was_given_to_end(make_mps: MakeMps) -> None:
    mps = make_mps(command=STANDIN, STANDIN_BUSY=1)
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES, "--drain", 1)
    mps.ready(uuid)
    manager.send_signal(signal.SIGINT)
    assert manager.wait(LIMIT) == 0
    assert "told to quit -t 1" in mps.log.read_text()
    assert "ended by itself" in mps.log.read_text()  # and nobody ended it before
    assert mps.mode() == DEFAULT


def test_a_pause_keeps_what_containers_have_mounted(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 8, "--memory", "4GiB", "--threads", 10, "--drain", 1)
    assert mps.ready(uuid)["limits"]["asked"] == {"memory_mib": 4096, "threads": 10.0}
    shm = mps.root / uuid / "shm"
    manager.send_signal(signal.SIGINT)
    assert manager.wait(LIMIT) == 0
    assert (mps.mode(), os.path.ismount(shm)) == (DEFAULT, True)
    second = mps.manage()
    mps.ready(uuid)
    assert mps.mode() == EXCLUSIVE_PROCESS
    mps.drop(uuid)
    second.send_signal(signal.SIGINT)
    assert second.wait(LIMIT) == 0
    assert (mps.mode(), os.path.ismount(shm)) == (DEFAULT, False)
