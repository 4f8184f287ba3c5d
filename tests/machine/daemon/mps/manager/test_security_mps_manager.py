# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a user of the node without rights can do to the manager of an MPS daemon, NVIDIA's genuine one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from gpu_plugin.tools.state import started
from nvsim.testing import client

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import Mps, living
from tests.fakes.mps.tenants import NOBODY, as_nobody
from tests.support.waiting import eventually

EXCLUSIVE_PROCESS = 3
HOLD = """
import socket, sys, time
end = time.time() + float(sys.argv[2])
held = []
while time.time() < end:
    try:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(sys.argv[1])
        held.append(one)
        print("held", flush=True)
        time.sleep(max(end - time.time(), 0))
    except OSError:
        time.sleep(0.01)
"""


def hold(mps: Mps, seconds: float) -> subprocess.Popen[str]:
    """Connect to the control socket as a user without rights, and say nothing for so long."""
    socket = mps.root / mps.uuid() / "ipc/pipe/control"
    process = as_nobody(HOLD, str(socket), str(seconds))
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def with_server(mps: Mps) -> Path:
    """Return the genuine program with a child, as its server is one; without CUDA it starts none."""
    program = mps.folder / "with-server"
    program.write_text(f'#!/bin/sh\n[ "$1" = -f ] && sleep 300 &\nexec {mps.program} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.attack("silent-mps-client")
def test_one_who_says_nothing_ends_nobodys_work(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    held = hold(mps, 14)
    problem = mps.failed(uuid)
    assert "its control socket is held by process" in problem
    assert f"process {held.pid} (python3 of user {NOBODY})" in problem
    fed = mps.notifications().count("WATCHDOG=1")
    held.wait(30)
    assert living(daemon)
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (daemon, 0)
    assert after["limits"]["read_back"]["default_active_thread_percentage"] == "25.0"
    assert mps.notifications().count("WATCHDOG=1") > fed  # by the manager's loop, not by answers


@pytest.mark.attack("silent-mps-client")
def test_a_restart_can_not_be_held_off(mps: Mps) -> None:
    """Nobody can reach a daemon before its limits are in place."""
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    socket = mps.root / uuid / "ipc/pipe/control"
    racers = [as_nobody(HOLD, str(socket), "20") for _each in range(4)]
    try:
        kill(daemon)
        eventually(lambda: mps.status(uuid)["daemon"] not in (0, daemon))
        assert mps.status(uuid)["restarts"] == 1
    finally:
        for one in racers:
            one.kill()
            one.wait()


@pytest.mark.attack("silent-mps-client")
def test_a_daemon_that_hangs_is_kept_while_it_has_a_server(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.program = with_server(mps)
    mps.run(uuid, "--replicas", 4, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    kill(daemon, signal.SIGSTOP)
    assert "the control daemon does not answer" in mps.failed(uuid)
    time.sleep(12)  # one without a server is replaced by then
    assert living(daemon)
    kill(daemon, signal.SIGCONT)
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (daemon, 0)


@pytest.mark.attack("silent-mps-client")
def test_who_wants_it_has_a_silent_daemon_replaced(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm", "--replace-silent", 6)
    daemon = mps.ready(uuid)["daemon"]
    held = hold(mps, 60)
    try:
        assert mps.ready(uuid, restarts=1, seconds=40)["daemon"] != daemon
    finally:
        held.kill()
        held.wait()


def victim() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], start_new_session=True)


def as_others(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.attack("mps-root-of-a-user")
@pytest.mark.parametrize("where", ["root", "parent", "link", "open"])
def test_a_root_that_others_decide_about_is_refused(mps: Mps, where: str, tmp_path: Path) -> None:
    """They could name any process to be ended, and any file to be written."""
    uuid, process = mps.uuid(), victim()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    mps.root = mps.folder / "p/r"
    if where == "link":
        as_others(mps.folder / "theirs")
        mps.root.parent.mkdir()
        mps.root.symlink_to(mps.folder / "theirs")
    else:
        mps.root.mkdir(parents=True)
    state = {"version": 1, "daemon": (process.pid, started(process.pid))}
    (mps.root / f"{uuid}.state").write_text(json.dumps(state))
    (mps.root / f".{uuid}.state.new").symlink_to(secret)
    if where == "root":
        as_others(mps.root)
    elif where == "parent":
        as_others(mps.root.parent)
    elif where == "open":
        mps.root.parent.chmod(0o1777)
    try:
        mps.run(uuid, "--replicas", 4, "--no-shm")
        told = f"MPS can't have its files in {mps.root}: "
        eventually(lambda: told in mps.log.read_text())
        log = mps.log.read_text()
        assert "choose a mpsRoot that root alone may write" in log
        assert living(process.pid)
        assert secret.read_text() == "secret"
        assert mps.mode() == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.attack("mps-root-of-a-user")
def test_only_a_control_daemon_of_ours_is_ended(mps: Mps) -> None:
    uuid, process = mps.uuid(), victim()
    mps.root.mkdir()
    state = {"version": 1, "daemon": (process.pid, started(process.pid))}
    (mps.root / f"{uuid}.state").write_text(json.dumps(state))
    try:
        mps.run(uuid, "--replicas", 4, "--no-shm")
        mps.ready(uuid)
        assert living(process.pid)
        assert "a process that is no control daemon of ours is left alone" in mps.log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.attack("mps-root-of-a-user")
def test_no_link_is_followed_by_what_is_written(mps: Mps, tmp_path: Path) -> None:
    uuid, secret = mps.uuid(), tmp_path / "secret"
    secret.write_text("secret")
    mps.root.mkdir()
    (mps.root / f".{uuid}.state.new").symlink_to(secret)
    manager = mps.run(uuid, "--replicas", 4, "--no-shm")
    for name in (f".{uuid}.state.{manager.pid}", f".{uuid}.json.{manager.pid}"):
        with contextlib.suppress(FileExistsError):  # it writes at this very moment
            (mps.root / name).symlink_to(secret)
    mps.ready(uuid)
    assert mps.end(manager) == 0
    assert secret.read_text() == "secret"


@pytest.mark.attack("exclusive-mode-taken-away")
def test_exclusive_mode_that_somebody_took_away_is_set_again(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    assert mps.mode() == EXCLUSIVE_PROCESS
    for mode in (0, 2):
        change = f"n.nvmlDeviceSetComputeMode(n.nvmlDeviceGetHandleByIndex(0), {mode})"
        client(mps.sim, f"n.nvmlInit(); {change}")
        eventually(lambda: mps.mode() == EXCLUSIVE_PROCESS)
    told = "somebody changed the compute mode, setting EXCLUSIVE_PROCESS again"
    eventually(lambda: mps.log.read_text().count(told) == 2)
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (daemon, 0)
    assert mps.end(manager) == 0
    assert mps.mode() == 0
