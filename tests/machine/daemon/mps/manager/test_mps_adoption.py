# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Managers that end, in whatever way: their daemons run on, and the next one adopts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim.testing import client as nvml

from tests.fakes.mps.mps_running import EXCLUSIVE_PROCESS, Client, Mps, living
from tests.support import helper_process
from tests.support.folder import named
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT, eventually, unchanged

KEPT = ("daemon", "restarts", "limits", "pipe", "settings", "clients")


@pytest.fixture
def mps(with_clients: Mps) -> Mps:
    return with_clients


def share(mps: Mps, *words: object) -> dict[str, Client]:
    """Share both GPUs, and have a client on each."""
    devices = [mps.uuid(gpu) for gpu in range(2)]
    for device in devices:
        mps.run(device, "--replicas", 4, "--memory", "900M", *words)
    found = {device: Client(str(mps.ready(device)["pipe"])) for device in devices}
    for device in devices:
        eventually(lambda device=device: mps.status(device)["clients"] == 1)
    return found


def end_with(mps: Mps, number: int) -> None:
    mps.managers[-1].send_signal(number)
    mps.managers[-1].wait(LIMIT)


def adopted(mps: Mps, device: str) -> bool:
    found = mps.status(device)
    return (found["pid"], found["state"]) == (mps.managers[-1].pid, "ready")


def test_manager_ended_again_and_again_and_no_client_knows_of_it(mps: Mps) -> None:
    clients = share(mps)
    before = {device: mps.status(device) for device in clients}
    mounted = {device: os.stat(mps.root / device / "shm").st_dev for device in clients}
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        end_with(mps, number)
        mps.manage()
        for device in clients:
            eventually(lambda device=device: adopted(mps, device))
    for device, client in clients.items():
        found = mps.status(device)
        assert {one: found[one] for one in KEPT} == {one: before[device][one] for one in KEPT}
        assert client.living()
        assert os.stat(mps.root / device / "shm").st_dev == mounted[device]
    assert [mps.mode(gpu) for gpu in range(2)] == [EXCLUSIVE_PROCESS] * 2
    mounts = Path("/proc/self/mounts").read_text()
    assert [mounts.count(f"{mps.root / device}/shm ") for device in clients] == [1, 1]


def test_adopted_daemon_that_dies_is_replaced_and_the_other_is_not(mps: Mps) -> None:
    clients = share(mps)
    (first, second) = clients
    other = mps.status(second)
    end_with(mps, signal.SIGKILL)
    mps.manage()
    eventually(lambda: adopted(mps, first) and adopted(mps, second))
    daemon = mps.status(first)["daemon"]
    kill(daemon)
    eventually(lambda: mps.status(first)["daemon"] not in (0, daemon) and adopted(mps, first))
    assert mps.status(first)["restarts"] == 1
    assert mps.status(second)["daemon"] == other["daemon"]
    assert clients[second].living()


def test_end_of_a_client_is_known_before_the_next_question(mps: Mps) -> None:
    """Who drains a node and then changes it must not be told of pods that are gone."""
    first = mps.uuid()
    mps.run(first, "--replicas", 4, "--memory", "900M", "--interval", 60)
    client = Client(str(mps.ready(first)["pipe"]))
    end_with(mps, signal.SIGKILL)
    mps.manage("--interval", 60)  # which looks at once
    eventually(lambda: mps.status(first)["clients"] == 1)
    client.end()
    eventually(lambda: mps.status(first)["clients"] == 0)
    assert mps.status(first)["state"] == "ready"


def test_what_daemons_tell_between_two_managers_holds_nobody_up(mps: Mps) -> None:
    """Their output goes on to the next manager; without one they are neither ended nor blocked."""
    clients = share(mps)
    (first, _second) = clients
    end_with(mps, signal.SIGKILL)
    daemon = mps.status(first)["daemon"]
    for _line in range(3):
        mps.ask(first, "shutdown_server 4242")
    assert living(daemon)
    mps.manage()
    eventually(lambda: adopted(mps, first))
    eventually(lambda: mps.log.read_text().count("told to shutdown_server 4242") == 3)
    assert clients[first].living()


def test_mode_that_was_changed_while_no_manager_ran_is_set_again(mps: Mps) -> None:
    """As after a reset or a new driver: an idle control daemon has nothing open."""
    (first, _second) = clients = share(mps)
    before = mps.status(first)["daemon"]
    end_with(mps, signal.SIGTERM)
    nvml(mps.sim, "n.nvmlInit(); n.nvmlDeviceSetComputeMode(n.nvmlDeviceGetHandleByIndex(0), 0)")
    assert mps.mode() == 0
    mps.manage()
    eventually(lambda: mps.mode() == EXCLUSIVE_PROCESS)
    assert mps.status(first)["daemon"] == before
    assert all(client.living() for client in clients.values())
    for client in clients.values():
        client.end()
    mps.end(mps.managers[-1])
    assert mps.mode() == 0  # which is what was there before the first


def test_daemon_that_nobody_wrote_down_is_found_by_its_folders(mps: Mps) -> None:
    """As where the disk was full, or somebody removed the file."""
    (first, second) = clients = share(mps)
    before = {device: mps.status(device)["daemon"] for device in clients}
    end_with(mps, signal.SIGKILL)
    (mps.root / f"{first}.state").unlink()
    (mps.root / f"{second}.state").write_text("{")
    (mps.root / f"{second}.json").unlink()
    mps.manage()
    eventually(lambda: adopted(mps, first))
    eventually(lambda: mps.status(second).get("daemon") == before[second])
    assert mps.status(first)["daemon"] == before[first]
    assert all(client.living() for client in clients.values())
    for client in clients.values():
        client.end()
    mps.end(mps.managers[-1])
    assert [mps.mode(gpu) for gpu in range(2)] == [0, 0]


def test_driver_that_hangs_keeps_no_manager_from_adopting(mps: Mps) -> None:
    """Nor one that adopted them from seeing them end: only what needs the driver waits for it."""
    (first, second) = clients = share(mps)
    before = {device: mps.status(device)["daemon"] for device in clients}
    end_with(mps, signal.SIGKILL)
    for function in ("nvmlDeviceGetCount_v2", "nvmlDeviceGetComputeMode"):
        mps.sim.ctl("hang", function=function)
    mps.manage()
    for device in clients:
        eventually(lambda device=device: adopted(mps, device))
    assert {device: mps.status(device)["daemon"] for device in clients} == before
    kill(before[first])
    eventually(lambda: mps.status(first)["restarts"] == 1)
    assert adopted(mps, second)
    assert clients[second].living()


@pytest.mark.parametrize(
    "lost",
    ["all", *(pytest.param(one, marks=pytest.mark.long) for one in ("settings", "limits"))],
)
def test_state_of_another_release_takes_nothing_from_its_clients(mps: Mps, lost: str) -> None:
    clients = share(mps)
    (first, second) = clients
    end_with(mps, signal.SIGKILL)
    path = mps.root / f"{first}.json"
    state = json.loads(path.read_text())
    before = state["daemon"]
    left = {key: state[key] for key in state if key != lost}
    path.write_text('{"version": 99}' if lost == "all" else json.dumps(left))
    mps.manage()
    eventually(lambda: adopted(mps, second))
    told = "with limits that are not known"
    eventually(lambda: mps.status(first).get("problem", "").endswith(told))
    assert mps.status(first)["clients"] == 1
    unchanged(lambda: mps.status(first)["daemon"], before, lambda: mps.asked(first))
    assert clients[first].living()
    assert living(before)
    clients[first].end()
    eventually(lambda: mps.status(first)["daemon"] not in (0, before) and adopted(mps, first))
    assert mps.status(first)["limits"]["default"] == {"memory_mib": 900, "threads": 25.0}
    assert clients[second].living()


def test_manager_that_is_killed_at_a_start_leaves_no_daemon_without_limits(mps: Mps) -> None:
    device = mps.uuid()
    mood = mps.folder / "mood"
    mood.write_text("lost")
    mps.run(device, "--replicas", 4, "--memory", "900M", STANDIN_MOOD=str(mood))
    path = mps.root / f"{device}.state"
    eventually(lambda: path.exists() and "daemon" in path.read_text())
    daemon = json.loads(path.read_text())["daemon"][0]
    end_with(mps, signal.SIGKILL)
    mood.unlink()
    mps.manage()
    eventually(lambda: adopted(mps, device))
    assert mps.status(device)["daemon"] != daemon
    assert not living(daemon)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of memory."""
    memory = Path("/sys/fs/cgroup/memory")
    if not (memory / "memory.limit_in_bytes").exists():
        pytest.skip("no control group of version 1 can be made here")
    made = memory / named(f"mps-{os.getpid()}")
    made.mkdir()
    yield made
    for pid in (made / "cgroup.procs").read_text().split():
        kill(int(pid))
    eventually(lambda: not (made / "cgroup.procs").read_text())
    made.rmdir()


def test_out_of_memory_ends_the_manager_and_no_client(mps: Mps, group: Path) -> None:
    """The kernel's own choice: in a control group with too little memory for all of them."""
    clients = share(mps)
    before = {device: mps.status(device)["daemon"] for device in clients}
    manager = mps.managers[-1]
    (group / "cgroup.procs").write_text(str(manager.pid))
    hog = "import sys; held = bytearray(64 << 20); sys.stdin.read()"
    with helper_process.start(
        ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec {sys.executable} -c "{hog}"'],
        stdin=subprocess.PIPE,
        ready=helper_process.executed,
    ) as other:
        try:
            (group / "memory.limit_in_bytes").write_text(str(8 << 20))
        except OSError as error:
            pytest.skip(f"this machine's kernel has no such limit: {error}")
        assert manager.wait(LIMIT) == -signal.SIGKILL
        other.kill()
    mps.manage()
    eventually(lambda: all(adopted(mps, device) for device in clients))
    assert {device: mps.status(device)["daemon"] for device in clients} == before
    assert all(client.living() for client in clients.values())
