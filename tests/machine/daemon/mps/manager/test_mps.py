# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mps run`` with NVIDIA's genuine control program, on simulated GPUs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvsim import genuine
from nvsim.testing import client, start

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import ROOTS_ALONE, Mps, living
from tests.support.waiting import eventually

DEFAULT, EXCLUSIVE_PROCESS = 0, 3
MakeMps = Callable[..., Mps]


@pytest.fixture(scope="session")
def program() -> Path:
    return genuine.mps_control()


@pytest.fixture
def make_mps(program: Path) -> Iterator[MakeMps]:
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made: list[Mps] = []

    def make(product: str = "h100-80", gpus: int = 1) -> Mps:
        made.append(Mps(start(product, gpus), program))
        return made[-1]

    yield make
    for one in made:
        one.stop()
        one.sim.stop()


def test_ready_only_with_the_limits_in_place_and_all_given_back(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4)
    status = mps.ready(uuid)
    eventually(lambda: "READY=1" in mps.notifications())
    eventually(lambda: mps.ask(uuid, "get_default_active_thread_percentage") == "25.0\n")
    eventually(lambda: mps.ask(uuid, "get_default_device_pinned_mem_limit 0") == "19G\n")
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert status["limits"] == {
        "asked": {"memory_mib": 20389, "threads": 25.0},
        "default": {"memory_mib": 20389, "threads": 25.0},
        "read_back": {
            "default_active_thread_percentage": "25.0",
            "default_device_pinned_mem_limit": "19G",
        },
    }
    assert (status["pid"], status["replicas"], status["clients"]) == (manager.pid, 4, 0)
    folder = mps.root / uuid
    modes = [(folder / name).stat().st_mode & 0o7777 for name in (".", "ipc/pipe", "log", "shm")]
    assert modes == [0o711, 0o755, 0o755, 0o1777]
    assert (mps.root / f"{uuid}.json").stat().st_mode & 0o777 == 0o644
    assert os.path.ismount(folder / "shm")
    space = os.statvfs(folder / "shm")
    page = os.sysconf("SC_PAGE_SIZE")
    assert space.f_blocks * space.f_frsize == -(-os.sysconf("SC_PHYS_PAGES") // 2) * page
    shm = os.stat(folder / "shm")
    inside = os.stat(f"/proc/{status['daemon']}/root/dev/shm")
    assert (shm.st_dev, shm.st_ino) == (inside.st_dev, inside.st_ino)
    environment = Path(f"/proc/{status['daemon']}/environ").read_text().split("\0")
    assert f"CUDA_VISIBLE_DEVICES={uuid}" in environment
    assert not [one for one in environment if one.startswith("NOTIFY_SOCKET")]

    eventually(lambda: mps.notifications().count("WATCHDOG=1") > 2)
    assert mps.end(manager) == 0
    eventually(lambda: "STOPPING=1" in mps.notifications())
    assert mps.mode() == DEFAULT
    assert not living(status["daemon"])
    assert not (folder / "ipc/pipe").exists()
    assert not os.path.ismount(folder / "ipc")
    assert not os.path.ismount(folder / "shm")
    assert sorted(path.name for path in mps.root.iterdir()) == [uuid, f"{uuid}.lock"]
    assert [path.name for path in mps.settings.iterdir()] == ["manager.lock"]


def test_combined_shares_raise_the_default_to_what_one_container_may_have(
    make_mps: MakeMps,
) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    mps.run(uuid, "--no-shm", "--replicas", 8, "--combine", 3, "--memory", "4GiB")
    status = mps.ready(uuid)
    assert status["limits"]["asked"] == {"memory_mib": 4096, "threads": 12.5}
    eventually(lambda: mps.ask(uuid, "get_default_active_thread_percentage") == "37.5\n")
    eventually(lambda: mps.ask(uuid, "get_default_device_pinned_mem_limit 0") == "12G\n")
    assert status["own_shm"] is False
    assert not (mps.root / uuid / "shm").exists()


def test_mode_that_was_set_before_is_the_one_given_back(make_mps: MakeMps) -> None:
    mps = make_mps()
    client(mps.sim, "n.nvmlInit(); n.nvmlDeviceSetComputeMode(n.nvmlDeviceGetHandleByIndex(0), 2)")
    manager = mps.run(mps.uuid(), "--replicas", 2)
    mps.ready(mps.uuid())
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.end(manager) == 0
    assert mps.mode() == 2


def test_mig_device_has_a_daemon_too_and_the_gpus_mode_stays(make_mps: MakeMps) -> None:
    mps = make_mps("a100-40")
    uuid = str(
        client(
            mps.sim,
            """
            n.nvmlInit(); gpu = n.nvmlDeviceGetHandleByIndex(0); n.nvmlDeviceSetMigMode(gpu, 1)
            gi = n.nvmlDeviceCreateGpuInstance(gpu, n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2).id)
            info = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 2, 0)
            n.nvmlGpuInstanceCreateComputeInstance(gi, info.id)
            answer(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)))
            """,
        )
    )
    mps.run(uuid, "--replicas", 2, "--no-shm")
    status = mps.ready(uuid)
    assert 8000 < status["limits"]["asked"]["memory_mib"] < 10240  # half of 3g.20gb
    assert mps.mode() == DEFAULT
    mps.run(mps.uuid(), "--replicas", 2)
    assert "is in MIG mode" in mps.failed(mps.uuid())
    assert mps.ready(uuid)["daemon"] == status["daemon"]  # the one is no matter of the other


def test_killed_daemon_comes_back_twenty_times_with_its_limits(
    make_mps: MakeMps,
) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 5, "--no-shm", "--steady", 0)
    took = []
    for round_ in range(20):
        daemon = mps.ready(uuid, restarts=round_)["daemon"]
        begun = time.monotonic()
        kill(daemon)
        eventually(lambda n=round_: mps.status(uuid)["restarts"] > n)
        status = mps.ready(uuid, restarts=round_ + 1)
        took.append(time.monotonic() - begun)
        assert status["daemon"] != daemon, mps.log.read_text()
        assert status["limits"]["read_back"]["default_active_thread_percentage"] == "20.0"
        assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.status(uuid)["restarts"] == 20, mps.log.read_text()
    assert "the control daemon" in mps.log.read_text()
    median, worst = statistics.median(took), max(took)
    print(f"recovery: median {median:.2f} s, worst {worst:.2f} s")
    assert median < 2
    assert worst < 6


def test_daemon_that_ends_again_and_again_is_given_more_time(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 5, "--no-shm")
    took = []
    for round_ in range(4):
        kill(mps.ready(uuid, restarts=round_)["daemon"])
        begun = time.monotonic()
        mps.ready(uuid, restarts=round_ + 1)
        took.append(time.monotonic() - begun)
    assert took[3] > 0.8  # it waited 0.1, 0.2, 0.4 and 0.8 seconds


def test_daemon_that_hangs_is_replaced(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 2, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    kill(daemon, signal.SIGSTOP)
    assert mps.ready(uuid, restarts=1, seconds=90)["daemon"] != daemon
    assert not living(daemon)
    assert "the control daemon does not answer" in mps.log.read_text()


def test_limits_that_somebody_changed_are_set_again(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm")
    mps.ready(uuid)
    question = "get_default_active_thread_percentage"
    told = "somebody changed the limits"
    for number, change in enumerate(
        (f"set{question[3:]} 90", "set_default_device_pinned_mem_limit 0 0M")
    ):

        def noticed(change: str = change, number: int = number) -> bool:
            mps.ask(uuid, change)
            return mps.log.read_text().count(told) > number

        eventually(noticed)
    eventually(lambda: mps.ask(uuid, question) == "25.0\n")
    eventually(lambda: mps.ask(uuid, "get_default_device_pinned_mem_limit 0") == "19G\n")
    assert mps.status(uuid)["restarts"] == 0


def test_others_who_ask_do_not_make_it_restart(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--no-shm", "--interval", 0.02)
    mps.ready(uuid)
    end = time.monotonic() + 3
    answers = []
    while time.monotonic() < end:
        answers.append(mps.ask(uuid, "get_default_active_thread_percentage"))
    assert answers.count("25.0\n") > 10
    assert "" in answers  # the program did lose some, so the manager's were at risk as well
    assert mps.status(uuid)["restarts"] == 0, mps.log.read_text()
    assert mps.end(manager) == 0


def test_second_manager_refuses_and_disturbs_nothing(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    first = mps.run(uuid, "--replicas", 2, "--no-shm")
    before = mps.ready(uuid)
    second = mps.another(mps.settings)
    assert second.wait(8) == 1
    assert f"have a manager already: process {first.pid} holds" in mps.log.read_text()
    elsewhere = mps.folder / "elsewhere"
    shutil.copytree(mps.settings, elsewhere, ignore=shutil.ignore_patterns("manager.*"))
    third = mps.another(elsewhere)
    told = f"the MPS daemon of {uuid} has a manager already: process {first.pid} holds"
    eventually(lambda: told in mps.log.read_text())
    (elsewhere / f"{uuid}.settings.json").unlink()
    assert third.wait(15) == 0
    assert mps.status(uuid) == before
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.end(first) == 0


def test_what_a_killed_manager_left_is_adopted_changed_and_given_back(make_mps: MakeMps) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 2)
    before = mps.ready(uuid)
    manager.kill()
    manager.wait()
    assert living(before["daemon"])
    second = mps.manage()
    eventually(lambda: mps.status(uuid).get("pid") == second.pid)
    told = ("daemon", "restarts", "limits", "pipe", "settings")
    assert {one: mps.ready(uuid)[one] for one in told} == {one: before[one] for one in told}
    assert mps.mode() == EXCLUSIVE_PROCESS
    mps.run(uuid, "--replicas", 4)  # nobody uses it
    eventually(lambda: mps.status(uuid)["replicas"] == 4)
    assert mps.ready(uuid)["daemon"] != before["daemon"]
    assert not living(before["daemon"])
    mounts = Path("/proc/self/mounts").read_text()
    assert mounts.count(f"{mps.root / uuid}/shm ") == 1
    assert mps.end(second) == 0
    assert mps.mode() == DEFAULT


@pytest.mark.parametrize("what", ["foreign", "link", "file"])
def test_pipe_folder_that_is_not_ours_is_refused_and_left_alone(
    make_mps: MakeMps, what: str
) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    pipe = mps.root / uuid / "ipc"
    pipe.parent.mkdir(parents=True)
    if what == "foreign":
        pipe.mkdir()
        (pipe / "theirs").touch()
        os.chown(pipe, 1234, 1234)
    elif what == "link":
        pipe.symlink_to(mps.folder)
    else:
        pipe.touch()
    mps.run(uuid, "--replicas", 2, "--no-shm")
    problem = mps.failed(uuid)
    assert str(pipe) in problem
    assert ("belongs to user 1234" in problem) == (what == "foreign")
    assert what != "foreign" or (pipe / "theirs").exists()
    assert mps.mode() == DEFAULT
    assert f"MPS of {uuid}: ready" not in mps.log.read_text()


@pytest.fixture
def tiny() -> Iterator[Path]:
    """A file system that is soon full."""
    path = tempfile.mkdtemp(prefix="t-", dir=ROOTS_ALONE)  # short, for the sockets' sake
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tiny", path], check=True)
    yield Path(path)
    subprocess.run(["umount", "-l", path], check=True)
    os.rmdir(path)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as stream:
        with contextlib.suppress(OSError):
            while True:
                stream.write(b"x" * 4096)
    assert os.statvfs(folder).f_bavail == 0


def test_full_disk_for_the_logs_stops_nothing(make_mps: MakeMps, tiny: Path) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    fill(tiny)
    log = mps.root / uuid / "log"
    log.mkdir(parents=True)
    subprocess.run(["mount", "--bind", tiny, log], check=True)
    try:
        manager = mps.run(uuid, "--replicas", 2, "--no-shm")
        daemon = mps.ready(uuid)["daemon"]
        mps.ask(uuid, "start_server -uid 0")  # which logs, and fails without CUDA
        seen = mps.notifications().count("WATCHDOG=1")
        eventually(lambda: mps.notifications().count("WATCHDOG=1") > seen + 2)
        assert mps.status(uuid)["daemon"] == daemon
        assert mps.end(manager) == 0
        assert mps.mode() == DEFAULT
    finally:
        subprocess.run(["umount", "-l", log], check=True)


def test_full_disk_for_everything_is_said_and_changes_nothing(
    make_mps: MakeMps, tiny: Path
) -> None:
    mps = make_mps()
    mps.root = tiny / "r"
    fill(tiny)
    manager = mps.run(mps.uuid(), "--replicas", 2, "--no-shm")
    eventually(lambda: "No space left on device" in mps.log.read_text())
    assert "Traceback" not in mps.log.read_text()
    assert mps.mode() == DEFAULT
    (tiny / "filler").unlink()
    mps.ready(mps.uuid(), seconds=20)
    assert mps.end(manager) == 0


@pytest.mark.parametrize(
    ("words", "problem", "mode"),
    [
        (("--replicas", "49"), "MPS takes from 1 to 48 clients", DEFAULT),
        (
            ("--replicas", "4", "--memory", "30GiB"),
            "4 shares have more memory than the device",
            DEFAULT,
        ),
        (("--replicas", "4", "--control", "/none"), "can't start /none", EXCLUSIVE_PROCESS),
    ],
)
def test_what_cannot_be_is_said(
    make_mps: MakeMps, words: tuple[str, ...], problem: str, mode: int
) -> None:
    mps = make_mps()
    uuid = mps.uuid()
    manager = mps.run(uuid, "--no-shm", *words)
    assert problem in mps.failed(uuid)
    assert mps.mode() == mode  # what the device does not allow changes nothing of it
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT
    assert f"MPS of {uuid}: ready" not in mps.log.read_text()


def test_servers_for_all_users_are_refused_where_the_program_has_none(
    make_mps: MakeMps,
) -> None:
    mps = make_mps()
    mps.run(mps.uuid(), "--replicas", 2, "--no-shm", "--multi-user")
    problem = mps.failed(mps.uuid())
    assert f"{mps.program} has no servers for several users" in problem
    assert "it does not take -multiuser-server: Cannot find MPS control daemon process" in problem
    assert "remove multiUser from sharing.mps" in problem
    assert mps.mode() == DEFAULT
    assert f"MPS of {mps.uuid()}: ready" not in mps.log.read_text()


def test_device_that_is_not_there(make_mps: MakeMps) -> None:
    mps = make_mps()
    other = "GPU-00000000-0000-0000-0000-000000000000"
    manager = mps.run(other, "--replicas", 2)
    assert mps.failed(other) == f"NVML failed while looking for {other}: not found"
    assert mps.end(manager) == 0
