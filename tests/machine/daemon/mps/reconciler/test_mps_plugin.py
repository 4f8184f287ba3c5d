# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares of MPS from the kubelet's side, with NVIDIA's genuine control program on simulated GPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import living
from tests.fakes.mps.mps_sharing import (
    DEFAULT,
    EXCLUSIVE_PROCESS,
    GPU,
    PATIENCE,
    Client,
    Shared,
)
from tests.support.waiting import eventually

MakeShared = Callable[..., Shared]


def test_healthy_only_with_the_limits_in_place(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=2)
    shared.start("{resources: [{name: gpu, replicas: 4, devices: [0]}]}")
    node, (first, second) = shared.node, shared.uuids()
    eventually(lambda: GPU in node.resources())
    shared.wait(GPU, 5)
    state = shared.state(first)
    assert state["state"] == "ready"
    assert state["limits"]["read_back"]["default_active_thread_percentage"] == "25.0"
    assert set(node.health(GPU)) == {*(f"{first}::{n}" for n in range(4)), second}
    assert (shared.mode(0), shared.mode(1)) == (EXCLUSIVE_PROCESS, DEFAULT)
    assert "its MPS daemon is about to start" in node.logged()
    assert node.status()["mps"] == {first: {"problem": None, "waits_for_clients": False}}


def test_what_a_container_gets(make_shared: MakeShared) -> None:
    shared = make_shared(
        4, "{resources: [{name: gpu, replicas: 4, combine: 2, memory: 4GiB, threads: 20}]}"
    )
    node, (uuid,) = shared.node, shared.uuids()
    with pytest.raises(ValueError, match="from 1 to 2 are allowed"):
        node.admit("two", gpu=3)
    pod = node.admit("one", gpu=2)
    assert pod["envs"] == {
        "NVIDIA_VISIBLE_DEVICES": uuid,
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
    }
    mounts = {one["container"]: (one["host"], one["read_only"]) for one in pod["mounts"]}
    assert mounts == {
        "/tmp/nvidia-mps": (str(shared.root / uuid / "ipc/pipe"), True),
        "/dev/shm": (str(shared.root / uuid / "shm"), False),
    }


def test_a_death_is_known_within_a_second_and_passes(make_shared: MakeShared) -> None:
    shared = make_shared(3, "{resources: [{name: gpu, replicas: 3}]}")
    node, (uuid,) = shared.node, shared.uuids()
    known = []
    for _again in range(3):
        daemon = shared.state(uuid)["daemon"]
        begun = time.monotonic()
        kill(daemon)
        shared.unhealthy()
        known.append(time.monotonic() - begun)
        shared.wait(GPU, 3)
        assert shared.state(uuid)["daemon"] != daemon
    assert min(known) < 1  # what it takes of ours; a busy machine adds to the others
    assert max(known) < 2
    assert "device is unhealthy" in node.logged()
    assert "device is healthy again" in node.logged()


def test_manager_that_is_killed_is_started_again_and_nobody_notices(
    make_shared: MakeShared,
) -> None:
    shared = make_shared(6, "{resources: [{name: gpu, replicas: 3}]}", gpus=2)
    node, uuids = shared.node, shared.uuids()
    before = {uuid: shared.state(uuid) for uuid in uuids}
    assert len({one["pid"] for one in before.values()}) == 1
    log = len(node.logged())
    kill(before[uuids[0]]["pid"])
    for uuid in uuids:
        eventually(lambda uuid=uuid: shared.state(uuid)["pid"] != before[uuid]["pid"])
    time.sleep(2)
    for uuid in uuids:
        assert shared.state(uuid)["daemon"] == before[uuid]["daemon"]
    assert shared.healthy() == 6
    assert "adopted the control daemon of an earlier manager" in node.logged()[log:]
    assert "device is unhealthy" not in node.logged()[log:]


def test_plugin_restarts_and_nobody_notices(make_shared: MakeShared) -> None:
    shared = make_shared(3, "{resources: [{name: gpu, replicas: 3}]}")
    node, (uuid,) = shared.node, shared.uuids()
    before = shared.state(uuid)
    node.daemon.kill()
    node.daemon.wait()
    shared.start("{resources: [{name: gpu, replicas: 3}]}")
    shared.wait(GPU, 3)
    assert shared.state(uuid)["pid"] == before["pid"]
    assert shared.state(uuid)["daemon"] == before["daemon"]


def test_plugin_that_ends_gives_the_compute_mode_back(make_shared: MakeShared) -> None:
    shared = make_shared(6, "{resources: [{name: gpu, replicas: 3}]}", gpus=2)
    node, (uuid, _other) = shared.node, shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    assert (shared.mode(0), shared.mode(1)) == (EXCLUSIVE_PROCESS, EXCLUSIVE_PROCESS)
    shm = os.stat(shared.root / uuid / "shm").st_dev
    node.daemon.terminate()
    assert node.daemon.wait(PATIENCE) == 0
    assert (shared.mode(0), shared.mode(1)) == (DEFAULT, DEFAULT)
    assert not living(daemon)
    assert not list(shared.root.glob("*.json"))
    shared.start("{resources: [{name: gpu, replicas: 3}]}")
    shared.wait(GPU, 6)
    assert shared.mode() == EXCLUSIVE_PROCESS
    assert os.stat(shared.root / uuid / "shm").st_dev == shm  # containers have it mounted
    node.daemon.kill()
    node.daemon.wait()
    shared.start("{resources: [{name: gpu, replicas: 3}]}")  # which takes the managers over
    shared.wait(GPU, 6)
    node.daemon.terminate()
    assert node.daemon.wait(PATIENCE) == 0
    assert (shared.mode(0), shared.mode(1)) == (DEFAULT, DEFAULT)


@pytest.mark.parametrize("settings", ["kept", "lost"])
def test_what_a_crash_left_is_given_back_at_the_next_start(
    make_shared: MakeShared, settings: str
) -> None:
    shared = make_shared(3, "{resources: [{name: gpu, replicas: 3}]}")
    node, (uuid,) = shared.node, shared.uuids()
    node.daemon.kill()
    node.daemon.wait()
    shared.kill_daemons()
    if settings == "lost":
        (shared.settings / f"{uuid}.settings.json").unlink()
    assert shared.mode() == EXCLUSIVE_PROCESS
    shared.start("")
    shared.wait(GPU, 1)
    assert set(node.health(GPU)) == {uuid}
    assert shared.mode() == DEFAULT
    assert not os.path.ismount(shared.root / uuid / "shm")
    assert shared.left() == []


def test_change_restarts_only_whom_it_concerns(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=2)
    entries = (
        "{{resources: [{{name: gpu, replicas: {}, devices: [0]}}, "
        "{{name: gpu, replicas: 2, devices: [1]}}]}}"
    )
    shared.start(entries.format(4))
    first, second = shared.uuids()
    shared.wait(GPU, 6)
    before, other = shared.state(first), shared.state(second)
    shm = os.stat(shared.root / first / "shm").st_dev
    shared.change(entries.format(3))
    shared.wait(GPU, 5)
    assert shared.state(first)["daemon"] != before["daemon"]
    assert shared.state(first)["limits"]["default"]["threads"] == 33.3
    assert shared.state(second) == other
    assert os.stat(shared.root / first / "shm").st_dev == shm  # containers have it mounted


def test_no_longer_shared_all_is_given_back(make_shared: MakeShared) -> None:
    shared = make_shared(2, "{resources: [{name: gpu, replicas: 2}]}")
    node, (uuid,) = shared.node, shared.uuids()
    assert shared.mode() == EXCLUSIVE_PROCESS
    shared.node.config.write_text("version: v1\n")
    shared.wait(GPU, 1)
    assert shared.mode() == DEFAULT
    assert shared.left() == []
    assert not os.path.ismount(shared.root / uuid / "shm")
    assert set(node.health(GPU)) == {uuid}


def test_a_fault_of_the_gpu_is_no_matter_of_mps(make_shared: MakeShared) -> None:
    shared = make_shared(4, "{resources: [{name: gpu, replicas: 2}]}", gpus=2)
    node, (first, second) = shared.node, shared.uuids()
    before = shared.state(first)
    node.sim.ctl("xid", gpu="0", number=79)
    shared.wait(GPU, 2)
    assert {
        one.partition("::")[0] for one, how in node.health(GPU).items() if how == "Healthy"
    } == {second}
    assert node.status()["mps"][first]["problem"] is None
    assert shared.state(first)["daemon"] == before["daemon"]


def test_what_the_devices_do_not_allow_is_refused(make_shared: MakeShared) -> None:
    shared = make_shared(1, "{resources: [{name: gpu, replicas: 50, devices: [0]}]}", gpus=2)
    node, (first, _second) = shared.node, shared.uuids()
    assert "MPS takes from 1 to 48 clients on its architecture" in node.logged()
    assert shared.left() == []
    shared.change("{resources: [{name: gpu, replicas: 2}]}")
    shared.wait(GPU, 4)
    shared.change("{resources: [{name: gpu, replicas: 4, memory: 30GiB}]}")
    eventually(lambda: node.status()["config_problem"])
    assert (
        f"{first}: it can't be shared by MPS: 4 shares have more memory"
        in (node.status()["config_problem"])
    )
    assert shared.healthy() == 4


SIZES = "{{resources: [{{name: gpu, replicas: {}, memory: 900M}}], onBusy: {}, drain: 1}}"


def test_change_waits_for_clients(make_shared: MakeShared, standin: Path) -> None:
    shared = make_shared(4, SIZES.format(4, "wait"), program=standin)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    before = shared.state(uuid)
    shared.change(SIZES.format(2, "wait"))
    eventually(lambda: "its limits change when its last client has ended" in node.logged())
    shared.wait(GPU, 0)
    assert node.status()["mps"][uuid]["waits_for_clients"] is True
    assert (client.living(), shared.state(uuid)["daemon"]) == (True, before["daemon"])
    client.end()
    shared.wait(GPU, 2)
    assert shared.state(uuid)["daemon"] != before["daemon"]


def test_change_ends_clients_where_that_is_asked_for(
    make_shared: MakeShared, standin: Path
) -> None:
    shared = make_shared(4, SIZES.format(4, "terminate"), program=standin)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    shared.change(SIZES.format(2, "terminate"))
    shared.wait(GPU, 2)
    eventually(lambda: not client.living())  # its server is gone after the second that it had
    assert "told to quit -t 1" in node.logged()


def test_change_is_refused_where_that_is_asked_for(make_shared: MakeShared, standin: Path) -> None:
    shared = make_shared(4, SIZES.format(4, "refuse"), program=standin)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    shared.change(SIZES.format(2, "refuse"))
    eventually(lambda: node.status()["config_problem"])
    assert "onBusy is refuse" in node.status()["config_problem"]
    assert shared.healthy() == 4
    client.end()
    eventually(lambda: shared.state(uuid)["clients"] == 0)
    shared.wait(GPU, 2)  # it is tried again by itself


def test_what_was_shared_is_not_given_away_under_its_clients(
    make_shared: MakeShared, standin: Path
) -> None:
    shared = make_shared(4, SIZES.format(4, "wait"), program=standin)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    node.config.write_text("version: v1\n")
    eventually(lambda: "it was shared by MPS, and its last client has not ended" in node.logged())
    eventually(lambda: node.health(GPU) == {uuid: "Unhealthy"})
    assert client.living()
    client.end()
    eventually(lambda: node.health(GPU) == {uuid: "Healthy"})
    assert shared.mode() == DEFAULT


def test_mig_devices_are_shared_too(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=2, product="a100-40")
    node = shared.node
    node.layout(1, "1g.5gb", "3g.20gb")
    shared.start(
        "{resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "flags: {migStrategy: mixed}",
    )
    shared.wait("nvidia.com/mig-1g.5gb", 2)
    (device,) = {one.partition("::")[0] for one in node.health("nvidia.com/mig-1g.5gb")}
    assert device.startswith("MIG-")
    assert 2000 < shared.state(device)["limits"]["default"]["memory_mib"] < 2560
    pod = node.admit("one", **{"mig-1g.5gb": 1})
    assert pod["envs"]["NVIDIA_VISIBLE_DEVICES"] == device
    assert shared.mode(1) == DEFAULT

    node.layout(1, "3g.20gb")
    eventually(lambda: shared.left() == [])
    eventually(lambda: shared.state(device)["state"] == "")


def test_time_slicing_is_beside_it_on_another_gpu(make_shared: MakeShared) -> None:
    slices = "\n  timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [1]}]}"
    mps = "{resources: [{name: gpu, replicas: 2, devices: [0]}]}"
    shared = make_shared(6, mps + slices, gpus=3)
    first, second, third = shared.uuids()
    ids = {*(f"{first}::{n}" for n in range(2)), *(f"{second}::{n}" for n in range(3)), third}
    assert set(shared.node.health(GPU)) == ids
    assert [shared.mode(gpu) for gpu in range(3)] == [EXCLUSIVE_PROCESS, DEFAULT, DEFAULT]
    assert shared.left() == [f"{first}.settings.json"]


def test_sixteen_gpus_at_once(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=16)
    shared.start("{resources: [{name: gpu, replicas: 2}]}")
    eventually(lambda: shared.healthy() == 32)
    assert len({shared.state(uuid)["daemon"] for uuid in shared.uuids()}) == 16


def test_a_configuration_is_checked_against_the_node(make_shared: MakeShared) -> None:
    shared = make_shared()
    node = shared.node
    shared.change("{resources: [{name: gpu, replicas: 49}]}")
    words = ("check-config", "--node", node.config)
    assert node.cli("check-config", node.config).returncode == 0
    missing = node.cli(*words)
    assert missing.returncode == 1
    assert "needs the program nvidia-cuda-mps-control" in missing.stderr
    assert "nvidia-cuda-mps in Debian" in missing.stderr
    node.env["PATH"] = shared.env["PATH"]
    refused = node.cli(*words)
    assert refused.returncode == 1
    assert "MPS takes from 1 to 48 clients on its architecture" in refused.stderr
    shared.change("{resources: [{name: gpu, replicas: 48}]}")
    assert node.cli(*words).returncode == 0
    shared.change("{multiUser: true, resources: [{name: gpu, replicas: 48}]}")
    refused = node.cli(*words)
    assert refused.returncode == 1
    assert "nvidia-cuda-mps-control has no servers for several users" in refused.stderr


def test_a_configuration_is_checked_against_the_clients(
    make_shared: MakeShared, standin: Path
) -> None:
    shared = make_shared(4, SIZES.format(4, "refuse"), program=standin)
    (uuid,) = shared.uuids()
    client = Client(shared, uuid)
    trial = shared.node.folder / "trial.yaml"
    for text, words in (
        (f"sharing:\n  mps: {SIZES.format(4, 'refuse')}\n", ""),
        (f"sharing:\n  mps: {SIZES.format(2, 'wait')}\n", ""),
        (f"sharing:\n  mps: {SIZES.format(2, 'refuse')}\n", "its limits change when its last"),
        ("version: v1\n", "it was shared by MPS, and its last client has not ended"),
    ):
        trial.write_text(f"{text}flags: {{mpsRoot: {shared.root}}}\n")
        done = shared.check(trial)
        assert done.returncode == bool(words), done.stderr
        assert words in done.stderr
    client.end()
    eventually(lambda: shared.state(uuid)["clients"] == 0)
    assert shared.check(trial).returncode == 0


def test_servers_for_all_users_are_refused_while_it_runs(make_shared: MakeShared) -> None:
    shared = make_shared(2, "{resources: [{name: gpu, replicas: 2}]}")
    node, (uuid,) = shared.node, shared.uuids()
    before = shared.state(uuid)
    shared.change("{multiUser: true, resources: [{name: gpu, replicas: 2}]}")
    problem = eventually(lambda: node.status()["config_problem"])
    assert "has no servers for several users" in problem
    assert (shared.healthy(), shared.state(uuid)["daemon"]) == (2, before["daemon"])
