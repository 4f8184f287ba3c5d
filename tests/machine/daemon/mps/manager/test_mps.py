# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mps run`` with NVIDIA's genuine control program, on simulated GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.model.mps.settings import Settings
from gpu_plugin.mps import folders
from nvsim.testing import client

from tests.fakes.mps.mps_running import DEFAULT, EXCLUSIVE_PROCESS, MakeMps, Mps, fill_up, living
from tests.support import helper_process
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT, eventually

THREADS = "get_default_active_thread_percentage"
MEMORY = "get_default_device_pinned_mem_limit 0"


def test_ready_only_with_the_limits_in_place_and_all_given_back(mps: Mps) -> None:
    """The default, which the program has, is what the largest container may have: three shares of eight."""
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 8, "--combine", 3, "--memory", "4GiB")
    status = mps.ready(uuid)
    eventually(lambda: "READY=1" in mps.notifications())
    eventually(lambda: mps.ask(uuid, THREADS) == "37.5\n")
    eventually(lambda: mps.ask(uuid, MEMORY) == "12G\n")
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert status["limits"] == {
        "asked": {"memory_mib": 4096, "threads": 12.5},
        "default": {"memory_mib": 12288, "threads": 37.5},
        "read_back": {
            "default_active_thread_percentage": "37.5",
            "default_device_pinned_mem_limit": "12G",
        },
    }
    assert (status["pid"], status["replicas"], status["clients"]) == (manager.pid, 8, 0)
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

    eventually(lambda: mps.rounds() > 2)
    assert mps.end(manager) == 0
    eventually(lambda: "STOPPING=1" in mps.notifications())
    assert mps.mode() == DEFAULT
    assert not living(status["daemon"])
    assert not (folder / "ipc/pipe").exists()
    assert not os.path.ismount(folder / "ipc")
    assert not os.path.ismount(folder / "shm")
    assert sorted(path.name for path in mps.root.iterdir()) == [uuid, f"{uuid}.lock"]
    assert [path.name for path in mps.settings.iterdir()] == ["manager.lock"]


def test_file_systems_of_a_former_root_go_and_a_container_keeps_them(mps: Mps) -> None:
    """The container has a mount of its own, as a pod that has not ended yet."""
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 2)
    mps.ready(uuid)
    former, mps.root = mps.root / uuid, mps.folder / "other"
    (former / "shm/tenant").write_text("kept")
    pod = helper_process.start(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            "echo mounted; read line; cat $0",
            former / "shm/tenant",
        ],
        ready=helper_process.printed("mounted"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    mps.write(uuid, Settings(2, root=str(mps.root)).to_json())
    mps.ready(uuid)
    assert [os.path.ismount(former / name) for name in ("ipc", "shm")] == [False, False]
    assert os.path.ismount(mps.root / uuid / "shm")
    assert pod.communicate("go on\n", timeout=LIMIT)[0].endswith("kept")
    assert mps.end(manager) == 0


def test_a_process_without_mps_on_the_gpu_is_told_of_until_it_ends(mps: Mps) -> None:
    uuid = mps.uuid()
    holder = mps.sim.hold(0)
    mps.run(uuid, "--replicas", 2, "--no-shm", "--modes", 0.5)
    problem = mps.failed(uuid)
    assert problem.startswith("processes without MPS keep clients from the GPU: process ")
    assert f"process {holder.pid} (python" in problem
    assert holder.poll() is None
    mps.sim.let_go(holder)
    assert mps.ready(uuid)["restarts"] == 0


def test_mode_that_was_set_before_is_the_one_given_back(mps: Mps) -> None:
    client(mps.sim, "n.nvmlInit(); n.nvmlDeviceSetComputeMode(n.nvmlDeviceGetHandleByIndex(0), 2)")
    manager = mps.run(mps.uuid(), "--replicas", 2, "--no-shm")
    status = mps.ready(mps.uuid())
    assert status["own_shm"] is False
    assert not (mps.root / mps.uuid() / "shm").exists()
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.end(manager) == 0
    assert mps.mode() == 2


def test_mig_device_has_a_daemon_too_and_the_gpus_mode_stays(make_mps: MakeMps) -> None:
    mps = make_mps(product="a100-40")
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


def test_killed_daemon_comes_back_with_its_limits(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 5, "--no-shm", "--steady", 0)
    for ended in range(3):
        daemon = mps.ready(uuid, restarts=ended)["daemon"]
        kill(daemon)
        eventually(lambda ended=ended: mps.status(uuid)["restarts"] > ended)
        status = mps.ready(uuid, restarts=ended + 1)
        assert status["daemon"] != daemon, mps.log.read_text()
        assert status["limits"]["read_back"]["default_active_thread_percentage"] == "20.0"
        assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.status(uuid)["restarts"] == 3, mps.log.read_text()
    assert "the control daemon" in mps.log.read_text()


def test_daemon_that_hangs_is_replaced(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 2, "--no-shm", "--patience", 2, "--silent", 0)
    daemon = mps.ready(uuid)["daemon"]
    kill(daemon, signal.SIGSTOP)
    eventually(lambda: mps.status(uuid)["daemon"] not in (0, daemon))
    assert mps.ready(uuid, restarts=1)
    assert not living(daemon)
    assert "the control daemon does not answer" in mps.log.read_text()


def test_limits_that_somebody_changed_are_set_again(mps: Mps) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--no-shm")
    mps.ready(uuid)
    told = "somebody changed the limits"
    for number, change in enumerate(
        (f"set{THREADS[3:]} 90", "set_default_device_pinned_mem_limit 0 0M")
    ):

        def noticed(change: str = change, number: int = number) -> bool:
            mps.ask(uuid, change)
            return mps.log.read_text().count(told) > number

        eventually(noticed)
    eventually(lambda: mps.ask(uuid, THREADS) == "25.0\n")
    eventually(lambda: mps.ask(uuid, MEMORY) == "19G\n")
    assert mps.status(uuid)["restarts"] == 0


def test_others_who_ask_do_not_make_it_restart(mps: Mps) -> None:
    """The program loses answers where two ask at once, so the manager's are at risk as well."""
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--no-shm", "--interval", 0.02)
    mps.ready(uuid)
    before, answers = mps.asked(uuid), []

    def cut_off() -> bool:
        answers.append(mps.ask(uuid, THREADS))
        return "" in answers and answers.count("25.0\n") > 10 and mps.asked(uuid) > before + 20

    eventually(cut_off)
    assert mps.status(uuid)["restarts"] == 0, mps.log.read_text()
    assert mps.end(manager) == 0


def test_second_manager_refuses_and_disturbs_nothing(mps: Mps) -> None:
    uuid = mps.uuid()
    first = mps.run(uuid, "--replicas", 2, "--no-shm")
    before = mps.ready(uuid)
    second = mps.another(mps.settings)
    assert second.wait(LIMIT) == 1
    assert f"have a manager already: process {first.pid} holds" in mps.log.read_text()
    elsewhere = mps.folder / "elsewhere"
    shutil.copytree(mps.settings, elsewhere, ignore=shutil.ignore_patterns("manager.*"))
    third = mps.another(elsewhere)
    told = f"the MPS control daemon of {uuid} has a manager already: process {first.pid} holds"
    eventually(lambda: told in mps.log.read_text())
    (elsewhere / f"{uuid}.settings.json").unlink()
    assert third.wait(LIMIT) == 0
    assert mps.status(uuid) == before
    assert mps.mode() == EXCLUSIVE_PROCESS
    assert mps.end(first) == 0


def test_what_a_killed_manager_left_is_adopted_changed_and_given_back(mps: Mps) -> None:
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 2)
    before = mps.ready(uuid)
    manager.kill()
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


def test_pipe_folder_that_is_not_ours_is_refused_and_left_alone(mps: Mps) -> None:
    uuid = mps.uuid()
    pipe = mps.root / uuid / "ipc"
    pipe.mkdir(parents=True)
    (pipe / "theirs").touch()
    os.chown(pipe, 1234, 1234)
    mps.run(uuid, "--replicas", 2, "--no-shm")
    problem = mps.failed(uuid)
    assert str(pipe) in problem
    assert "belongs to user 1234" in problem
    assert (pipe / "theirs").exists()
    assert mps.mode() == DEFAULT
    assert f"MPS of {uuid}: ready" not in mps.log.read_text()


def test_link_or_file_in_place_of_the_pipe_folder_is_refused(mps: Mps) -> None:
    names = Names(mps.uuid(), str(mps.root))
    pipe = Path(names.ipc)
    pipe.parent.mkdir(parents=True)
    for put in (lambda: pipe.symlink_to(mps.folder), pipe.touch):
        put()
        with pytest.raises(NodeError, match=f"{pipe} is not a folder|can't make {pipe}"):
            folders.make(names)
        pipe.unlink()


def test_full_disk_for_the_logs_stops_nothing(mps: Mps) -> None:
    uuid = mps.uuid()
    fill_up(mps.root / uuid / "log", "64k")
    manager = mps.run(uuid, "--replicas", 2, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    mps.ask(uuid, "start_server -uid 0")  # which logs, and fails without CUDA
    asked = mps.asked(uuid)
    eventually(lambda: mps.asked(uuid) > asked + 3)
    assert mps.ready(uuid)["daemon"] == daemon
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT


def test_full_disk_for_everything_is_said_and_changes_nothing(mps: Mps) -> None:
    filler = fill_up(mps.root, "64k")
    manager = mps.run(mps.uuid(), "--replicas", 2, "--no-shm")
    failed = f"MPS of {mps.uuid()}: failed"
    eventually(lambda: mps.log.read_text().count(failed) > 2)  # each is a new try
    assert "No space left on device" in mps.log.read_text()
    assert "Traceback" not in mps.log.read_text()
    assert mps.mode() == DEFAULT  # what it was can't be written down
    filler.unlink()
    mps.ready(mps.uuid())
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT


def test_what_cannot_be_is_said(mps: Mps) -> None:
    uuid, other = mps.uuid(), "GPU-00000000-0000-0000-0000-000000000000"
    manager = mps.run(uuid, "--no-shm", "--control", "/none", "--replicas", 49)
    for words, problem, mode in (
        (("--replicas", 49), "MPS takes from 1 to 48 clients", DEFAULT),
        (("--replicas", 4, "--memory", "30GiB"), "4 shares have more memory than the d", DEFAULT),
        (("--replicas", 4), "can't start /none", EXCLUSIVE_PROCESS),
    ):
        mps.run(uuid, *words)
        eventually(lambda problem=problem: problem in mps.status(uuid).get("problem", ""))
        assert mps.mode() == mode  # what the device does not allow changes nothing of it
    mps.run(other, "--replicas", 2)
    assert mps.failed(other) == f"NVML failed while looking for {other}: not found"
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT
    assert ": ready" not in mps.log.read_text()


def test_servers_for_all_users_are_refused_where_the_program_has_none(mps: Mps) -> None:
    mps.run(mps.uuid(), "--replicas", 2, "--no-shm", "--multi-user")
    problem = mps.failed(mps.uuid())
    assert f"{mps.program} has no servers for several users" in problem
    assert "it does not take -multiuser-server: Cannot find MPS control daemon process" in problem
    assert "remove multiUser: true from sharing.mps" in problem
    assert mps.mode() == DEFAULT
    assert f"MPS of {mps.uuid()}: ready" not in mps.log.read_text()
