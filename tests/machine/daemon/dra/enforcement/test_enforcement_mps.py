# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares under MPS: with NVIDIA's genuine control program on simulated GPUs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.dra.enforcing import MIB, share
from tests.fakes.mps.mps_running import living
from tests.support.helper_process import kill
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.dra.enforcing import Enforcing
    from tests.fakes.mps.mps_running import Mps

DEFAULT, EXCLUSIVE_PROCESS = 0, 3
WHOLE = 81559  # MiB of the product
Enforce = Callable[..., "Enforcing"]


def test_mps_gives_the_limits_of_each_share(node: Mps, enforce: Enforce) -> None:
    dra = enforce()
    one = share(node.sim, "c1", memory=10000 * MIB, cores=30, priority=1)
    uuid = one["gpu_uuid"]
    found = dra.ask("prepare", one)
    assert found["env"] == {
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10000M",  # the one device that its daemon sees
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }
    mounts = {one["container_path"]: (one["host_path"], one["options"]) for one in found["mounts"]}
    assert mounts == {
        "/tmp/nvidia-mps": (f"{node.root}/{uuid}/ipc/pipe", ["ro", "nosuid", "nodev", "bind"]),
        "/dev/shm": (f"{node.root}/{uuid}/shm", ["rw", "nosuid", "nodev", "bind"]),
    }
    assert (node.mode(0), node.mode(1)) == (EXCLUSIVE_PROCESS, DEFAULT)
    told = eventually(lambda: node.ask(uuid, "get_default_device_pinned_mem_limit 0"))
    assert told.strip() == f"{WHOLE // 1024}G"  # the genuine program tells whole GiB
    assert "shares of claims, at most" in node.told()


def test_daemon_runs_while_a_share_lives_and_no_longer(node: Mps, enforce: Enforce) -> None:
    dra = enforce()
    first, second = share(node.sim, "c1"), share(node.sim, "c2", memory=2000 * MIB)
    uuid = first["gpu_uuid"]
    dra.ask("prepare", first)
    daemon = node.status(uuid)["daemon"]
    assert dra.ask("prepare", second)["env"]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"].endswith("=2000M")
    assert dra.ask("prepare", second) == dra.ask("prepare", second)
    dra.ask("unprepare", first)
    dra.ask("unprepare", first)
    unchanged(lambda: node.status(uuid)["daemon"], daemon, lambda: node.asked(uuid))
    assert living(daemon)
    assert node.status(uuid)["state"] == "ready"
    dra.ask("unprepare", second)
    assert not living(daemon)  # by now: the next one may get the whole GPU
    assert node.mode(0) == DEFAULT
    assert not list(node.settings.glob("*.settings.json"))


def test_process_that_is_killed_takes_nothing_along(node: Mps, enforce: Enforce) -> None:
    first, second = share(node.sim, "c1"), share(node.sim, "c2", gpu=1)
    dra = enforce()
    dra.ask("prepare", first)
    dra.ask("prepare", second)
    daemons = [node.status(one["gpu_uuid"])["daemon"] for one in (first, second)]
    dra.kill()
    uuid = first["gpu_uuid"]
    unchanged(lambda: all(map(living, daemons)), True, lambda: node.asked(uuid))
    again = enforce()
    again.ask("tick")  # before it knows what lives it touches nothing
    assert len(list(node.settings.glob("*.settings.json"))) == 2
    again.ask("restore", first)  # the claim of the second is gone meanwhile
    eventually(lambda: not living(daemons[1]))
    assert living(daemons[0])
    eventually(lambda: node.mode(1) == DEFAULT)
    assert again.ask("prepare", first)["env"]
    assert node.status(first["gpu_uuid"])["daemon"] == daemons[0]


def test_after_a_boot_the_daemons_of_what_lives_come_back(node: Mps, enforce: Enforce) -> None:
    dra, one = enforce(), share(node.sim)
    dra.ask("restore", one)  # nothing of it is below /run any more

    def ready() -> bool:
        dra.ask("tick")
        return node.status(one["gpu_uuid"])["state"] == "ready"

    eventually(ready)
    assert node.mode(0) == EXCLUSIVE_PROCESS


def test_driver_that_does_not_answer_keeps_nobody_and_costs_no_daemon(
    node: Mps, enforce: Enforce
) -> None:
    dra, one = enforce(), share(node.sim)
    dra.ask("prepare", one)
    daemon = node.status(one["gpu_uuid"])["daemon"]
    dra.kill()
    node.sim.ctl("hang", function="nvmlDeviceGetCount_v2")
    again = enforce()
    again.ask("restore", one)
    again.ask("problem", one["gpu_uuid"])
    again.ask("tick")  # each answers while the driver does not
    assert living(daemon)
    assert node.status(one["gpu_uuid"])["daemon"] == daemon


def test_gpu_that_is_not_seen_keeps_its_daemon(node: Mps, enforce: Enforce) -> None:
    """Its daemon has not told yet what the GPU is, and the driver does not say it either."""
    dra, one = enforce(), share(node.sim)
    dra.ask("prepare", one)
    uuid = one["gpu_uuid"]
    daemon = node.status(uuid)["daemon"]
    dra.kill()
    kill(node.status(uuid)["pid"], signal.SIGSTOP)
    status = node.root / f"{uuid}.json"
    status.unlink()
    node.sim.ctl("fault", function="nvmlDeviceGetHandleByIndex_v2", gpu="all", code=15, times=100)
    again = enforce()
    again.ask("restore", one)
    for _again in range(3):
        again.ask("tick")
    assert (node.settings / f"{uuid}.settings.json").exists()
    assert living(daemon)


def test_manager_that_is_killed_comes_back_and_adopts(node: Mps, enforce: Enforce) -> None:
    dra = enforce()
    one = share(node.sim)
    dra.ask("prepare", one)
    before = node.status(one["gpu_uuid"])
    kill(before["pid"])

    def back() -> bool:
        dra.ask("tick")
        now = node.status(one["gpu_uuid"])
        return now["state"] == "ready" and now["pid"] != before["pid"]

    eventually(back)
    assert node.status(one["gpu_uuid"])["daemon"] == before["daemon"]
    assert dra.ask("problem", one["gpu_uuid"]) == ""


def test_daemon_that_is_killed_is_started_again(node: Mps, enforce: Enforce) -> None:
    dra = enforce()
    one = share(node.sim)
    dra.ask("prepare", one)
    before = node.status(one["gpu_uuid"])["daemon"]
    kill(before)
    eventually(lambda: node.status(one["gpu_uuid"])["daemon"] not in (0, before))
    assert dra.ask("prepare", share(node.sim, "c2"))["env"]


def test_daemon_that_does_not_come_is_an_error_that_leaves_nothing(
    node: Mps, enforce: Enforce, tmp_path: Path
) -> None:
    broken = tmp_path / "nvidia-cuda-mps-control"
    broken.write_text("#!/bin/sh\nexit 7\n")
    broken.chmod(0o755)
    node.program = broken
    dra = enforce(patience=6)
    with pytest.raises(
        RuntimeError, match=r"the MPS control daemon of GPU-.* is not ready: .*status 7"
    ):
        dra.ask("prepare", share(node.sim))
    assert not list(node.settings.glob("*.settings.json"))
    eventually(lambda: node.mode(0) == DEFAULT)


def test_program_that_is_missing_is_named(node: Mps, enforce: Enforce) -> None:
    node.program = Path("/nowhere/nvidia-cuda-mps-control")
    dra = enforce()
    with pytest.raises(RuntimeError, match="nvidia-cuda-mps-control is not installed"):
        dra.ask("prepare", share(node.sim))
    assert not list(node.settings.glob("*.settings.json"))


def test_more_shares_than_clients_are_refused_before_a_claim_comes(
    node: Mps, enforce: Enforce
) -> None:
    uuid = share(node.sim)["gpu_uuid"]
    words = "splitCount is 49, and an MPS server takes 48 clients on compute capability 9.0"
    more, fewer = enforce(split=49), enforce(split=48)
    eventually(lambda: words in more.ask("problem", uuid))
    with pytest.raises(RuntimeError, match=words):
        more.ask("prepare", share(node.sim))
    assert fewer.ask("prepare", share(node.sim))["env"]
    assert fewer.ask("problem", uuid) == ""
