# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a user of the node without rights can do to the manager of an MPS daemon, NVIDIA's genuine one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from gpu_plugin.model.mps.paths import Names, daemon_environment
from gpu_plugin.model.mps.settings import Settings
from gpu_plugin.mps import clients
from gpu_plugin.tools.files import started
from nvsim.testing import client

from tests.fakes.mps.mps_running import DEFAULT, EXCLUSIVE_PROCESS, Mps, living
from tests.fakes.mps.tenants import NOBODY, as_nobody
from tests.support import helper_process
from tests.support.helper_process import kill
from tests.support.waiting import eventually, unchanged

SHARES = ("--replicas", 4, "--no-shm")
SHORT = ("--patience", 1, "--silent", 0)  # one that nobody uses has no time to be silent
# Connects as soon as it can, and says nothing until its input ends.
HOLD = """
import os, socket, sys
while True:
    try:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(sys.argv[1])
        break
    except OSError:
        os.sched_yield()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding(mps: Mps) -> Iterator[subprocess.Popen[str]]:
    """Be a user without rights who is connected to the control socket and says nothing."""
    with racing(mps) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@contextlib.contextmanager
def racing(mps: Mps) -> Iterator[subprocess.Popen[str]]:
    """Be one who tries to be that."""
    process = as_nobody(HOLD, str(mps.root / mps.uuid() / "ipc/pipe/control"))
    try:
        yield process
    finally:
        process.close()


@pytest.mark.attack("silent-mps-client")
def test_one_who_says_nothing_ends_nobodys_work(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, *SHARES, *SHORT)
    mps.ready(uuid)
    with holding(mps) as held:
        before = mps.status(uuid)
        told = f"held by process {held.pid} (python3 of user {NOBODY})"
        eventually(lambda: told in mps.status(uuid)["problem"])
        fed = mps.rounds()
        unchanged(
            lambda: [mps.status(uuid)[one] for one in ("state", "daemon")],
            ["failed", before["daemon"]],
            lambda: mps.asked(uuid),
        )
        assert mps.rounds() > fed  # by the loop, not by answers
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (before["daemon"], before["restarts"])
    assert after["limits"]["read_back"]["default_active_thread_percentage"] == "25.0"


@pytest.mark.attack("silent-mps-client")
def test_a_restart_can_not_be_held_off(mps: Mps) -> None:
    """Nobody can reach a daemon before its limits are in place."""
    uuid = mps.uuid()
    mps.run(uuid, *SHARES)
    daemon = mps.ready(uuid)["daemon"]
    with racing(mps), racing(mps):
        kill(daemon)
        eventually(lambda: mps.status(uuid)["daemon"] not in (0, daemon))
        assert mps.status(uuid)["restarts"] == 1


@pytest.mark.attack("silent-mps-client")
def test_a_daemon_that_hangs_is_kept_while_it_has_a_server(mps: Mps) -> None:
    """The genuine one starts its server with CUDA alone, so here it has another child."""
    program = mps.folder / "with-server"
    program.write_text(f'#!/bin/sh\n[ "$1" = -f ] && sleep 300 &\nexec {mps.program} "$@"\n')
    program.chmod(0o755)
    mps.program, uuid = program, mps.uuid()
    mps.run(uuid, *SHARES, *SHORT)
    daemon = mps.ready(uuid)["daemon"]
    kill(daemon, signal.SIGSTOP)
    assert "the control daemon does not answer" in mps.failed(uuid)
    unchanged(lambda: mps.status(uuid)["daemon"], daemon, lambda: mps.asked(uuid))
    kill(daemon, signal.SIGCONT)
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (daemon, 0)


@pytest.mark.attack("silent-mps-client")
def test_who_wants_it_has_a_silent_daemon_replaced(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, *SHARES, "--patience", 1, "--replace-silent", 1)
    daemon = mps.ready(uuid)["daemon"]
    with holding(mps):
        eventually(lambda: mps.status(uuid)["daemon"] not in (0, daemon))
        assert mps.ready(uuid, restarts=1)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = helper_process.start(
        ["sleep", "300"], start_new_session=True, ready=helper_process.executed
    )
    yield process
    process.kill()


def as_others(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.attack("mps-root-of-a-user")
def test_a_root_that_others_decide_about_is_refused(
    mps: Mps, victim: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """They could name any process to be ended, and any file to be written."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    state = {"version": 1, "daemon": (victim.pid, started(victim.pid))}
    roots = {}
    for number, where in enumerate(("root", "parent", "link", "open")):
        uuid = f"{mps.uuid()[:-1]}{number}"  # what is a device is not asked before
        root = roots[uuid] = mps.folder / where / "r"
        if where == "link":
            as_others(mps.folder / "theirs")
            root.parent.mkdir()
            root.symlink_to(mps.folder / "theirs")
        else:
            root.mkdir(parents=True)
        (root / f"{uuid}.state").write_text(json.dumps(state))
        (root / f".{uuid}.state.new").symlink_to(secret)
        if where == "root":
            as_others(root)
        elif where == "parent":
            as_others(root.parent)
        elif where == "open":
            root.parent.chmod(0o1777)
        mps.write(uuid, Settings(4, root=str(root)).to_json())
    mps.manage("--no-shm")
    for root in roots.values():
        told = f"MPS can't have its files in {root}: "
        eventually(lambda told=told: told in mps.log.read_text())
    assert "choose a mpsRoot that root alone may write" in mps.log.read_text()
    assert living(victim.pid)
    assert secret.read_text() == "secret"
    assert mps.mode() == DEFAULT


@pytest.mark.attack("mps-root-of-a-user")
def test_only_a_control_daemon_of_ours_is_ended(mps: Mps, victim: subprocess.Popen[bytes]) -> None:
    uuid = mps.uuid()
    mps.root.mkdir()
    state = {"version": 1, "daemon": (victim.pid, started(victim.pid))}
    (mps.root / f"{uuid}.state").write_text(json.dumps(state))
    mps.run(uuid, *SHARES)
    mps.ready(uuid)
    assert living(victim.pid)
    assert (
        "a process that is not one of the collection's control daemons is left alone"
        in mps.log.read_text()
    )


@pytest.mark.attack("mps-root-of-a-user")
def test_no_link_is_followed_by_what_is_written(mps: Mps, tmp_path: Path) -> None:
    uuid, secret = mps.uuid(), tmp_path / "secret"
    secret.write_text("secret")
    mps.root.mkdir()
    (mps.root / f".{uuid}.state.new").symlink_to(secret)
    manager = mps.run(uuid, *SHARES)
    for name in (f".{uuid}.state.{manager.pid}", f".{uuid}.json.{manager.pid}"):
        with contextlib.suppress(FileExistsError):  # it writes at this very moment
            (mps.root / name).symlink_to(secret)
    mps.ready(uuid)
    assert mps.end(manager) == 0
    assert secret.read_text() == "secret"


@pytest.mark.attack("exclusive-mode-taken-away")
def test_exclusive_mode_that_somebody_took_away_is_set_again(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, *SHARES, "--modes", 0.2)
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
    assert mps.mode() == DEFAULT


@pytest.mark.parametrize(
    ("way", "taken"),
    [
        ((), True),
        (("unshare", "--pid", "--fork"), False),
        (("setpriv", f"--reuid={NOBODY}", "--clear-groups"), False),
    ],
    ids=["root", "container", "user"],
)
def test_who_calls_himself_a_control_daemon_is_taken_for_one_only_as_root_of_the_node(
    tmp_path: Path, way: tuple[str, ...], taken: bool
) -> None:
    names = Names(f"GPU-{UUID(int=1)}", f"/{tmp_path.name}")
    env = daemon_environment(names, f"{names.ipc}/d-1")
    words = [*way, "setsid", "env", *(f"{name}={text}" for name, text in env.items())]
    pipe = subprocess.PIPE
    with helper_process.start(
        [*words, "sh", "-c", "echo begun; exec cat"],
        stdin=pipe,
        stdout=pipe,
        text=True,
        ready=helper_process.printed("begun"),
    ) as process:
        found, own = clients.daemon(names)
        assert (bool(found), own) == (taken, f"{names.ipc}/d-1" if taken else "")
        process.communicate()
