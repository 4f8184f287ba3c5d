# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares of MPS from the kubelet's side, with NVIDIA's genuine control program on simulated GPUs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvsim import genuine

from tests.fakes.daemon.running import nodes
from tests.fakes.mps.mps_running import living
from tests.fakes.mps.mps_sharing import DEFAULT, EXCLUSIVE_PROCESS, GPU, Client, Shared
from tests.support.helper_process import kill
from tests.support.waiting import eventually, unchanged

MakeShared = Callable[..., Shared]
THREE = "{resources: [{name: gpu, replicas: 3}]}"


@pytest.fixture(scope="module")
def node_of_all() -> Iterator[Shared]:
    """A node with two GPUs, each in three shares."""
    program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    with nodes() as make_node:
        made = Shared(make_node(2), program)
        try:
            made.node.start_kubelet()
            made.start(THREE)
            yield made
        finally:
            made.node.stop()
            made.kill_all()


@pytest.fixture
def shared(node_of_all: Shared) -> Shared:
    """That node, as it was at first."""
    if node_of_all.node.daemon.poll() is not None:
        node_of_all.start_again(THREE)
    node_of_all.change(THREE)
    node_of_all.wait(GPU, 6)
    eventually(lambda: not node_of_all.node.status()["config_problem"])
    return node_of_all


def test_healthy_only_with_the_limits_in_place(make_shared: MakeShared) -> None:
    """Beside it a GPU that is no device of MPS."""
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
    assert "its MPS control daemon is about to start" in node.logged()
    well = {first: {"problem": None, "waits_for_clients": False}}
    eventually(lambda: node.status()["mps"], well)  # which is written after the kubelet is told


def test_what_a_container_gets(shared: Shared) -> None:
    node, (uuid, _other) = shared.node, shared.uuids()
    shares = "replicas: 4, combine: 2, memory: 4GiB, threads: 20, devices: [0]"
    shared.change(f"{{resources: [{{name: gpu, {shares}}}]}}")
    shared.wait(GPU, 5)
    node.admit("whole", gpu=1)  # the GPU that nobody shares
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
    for name in ("whole", "one"):
        node.ask("release", pod=name)


def test_a_death_is_known_and_passes(shared: Shared) -> None:
    node, (uuid, _other) = shared.node, shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    log = len(node.logged())

    def is_known() -> bool:
        """Kill what has come back before the plugin has looked, and return whether it knows of a death."""
        with contextlib.suppress(OSError):
            kill(shared.state(uuid)["daemon"])
        return "device is unhealthy" in node.logged()[log:]

    eventually(is_known)
    eventually(lambda: "device is healthy again" in node.logged()[log:])
    shared.wait(GPU, 6)
    assert shared.state(uuid)["daemon"] != daemon


def test_manager_that_is_killed_is_started_again_and_nobody_notices(shared: Shared) -> None:
    node, uuids = shared.node, shared.uuids()
    before = {uuid: shared.state(uuid) for uuid in uuids}
    assert len({one["pid"] for one in before.values()}) == 1
    log = len(node.logged())
    kill(before[uuids[0]]["pid"])
    for uuid in uuids:
        eventually(lambda uuid=uuid: shared.state(uuid)["pid"] != before[uuid]["pid"])
    unchanged(shared.healthy, 6, node.looks)
    for uuid in uuids:
        assert shared.state(uuid)["daemon"] == before[uuid]["daemon"]
    assert "adopted the control daemon of an earlier manager" in node.logged()[log:]
    assert "device is unhealthy" not in node.logged()[log:]


def test_plugin_restarts_and_nobody_notices(shared: Shared) -> None:
    uuid, _other = shared.uuids()
    before = shared.state(uuid)
    shared.node.kill()
    shared.start_again(THREE)
    shared.wait(GPU, 6)
    assert shared.state(uuid)["pid"] == before["pid"]
    assert shared.state(uuid)["daemon"] == before["daemon"]


def test_plugin_that_ends_gives_the_compute_mode_back(shared: Shared) -> None:
    node, (uuid, _other) = shared.node, shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    assert (shared.mode(0), shared.mode(1)) == (EXCLUSIVE_PROCESS, EXCLUSIVE_PROCESS)
    shm = os.stat(shared.root / uuid / "shm").st_dev
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert (shared.mode(0), shared.mode(1)) == (DEFAULT, DEFAULT)
    assert not living(daemon)
    assert not list(shared.root.glob("*.json"))
    shared.start_again(THREE)
    shared.wait(GPU, 6)
    assert shared.mode() == EXCLUSIVE_PROCESS
    assert os.stat(shared.root / uuid / "shm").st_dev == shm  # containers have it mounted
    node.kill()
    shared.start_again(THREE)  # which takes the manager over
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert (shared.mode(0), shared.mode(1)) == (DEFAULT, DEFAULT)


def test_change_restarts_only_whom_it_concerns(shared: Shared) -> None:
    first, second = shared.uuids()
    before, other = shared.state(first), shared.state(second)
    shm = os.stat(shared.root / first / "shm").st_dev
    entries = "{name: gpu, replicas: 2, devices: [0]}, {name: gpu, replicas: 3, devices: [1]}"
    shared.change(f"{{resources: [{entries}]}}")
    shared.wait(GPU, 5)
    assert shared.state(first)["daemon"] != before["daemon"]
    assert shared.state(first)["limits"]["default"]["threads"] == 50.0
    assert shared.state(second) == other
    assert os.stat(shared.root / first / "shm").st_dev == shm  # containers have it mounted


def test_no_longer_shared_all_is_given_back(shared: Shared) -> None:
    uuids = shared.uuids()
    assert shared.mode() == EXCLUSIVE_PROCESS
    shared.node.config.write_text("version: v1\n")
    shared.wait(GPU, 2)
    assert [shared.mode(gpu) for gpu in range(2)] == [DEFAULT, DEFAULT]
    assert shared.left() == []
    assert not [one for one in uuids if os.path.ismount(shared.root / one / "shm")]
    assert set(shared.node.health(GPU)) == set(uuids)


def test_servers_for_all_users_are_refused_while_it_runs(shared: Shared) -> None:
    node, (uuid, _other) = shared.node, shared.uuids()
    before = shared.state(uuid)
    shared.change("{multiUser: true, resources: [{name: gpu, replicas: 3}]}")
    problem = eventually(lambda: node.status()["config_problem"])
    assert "has no servers for several users" in problem
    assert (shared.healthy(), shared.state(uuid)["daemon"]) == (6, before["daemon"])


def test_what_the_devices_do_not_allow_is_refused(shared: Shared) -> None:
    node, (first, _second) = shared.node, shared.uuids()
    shared.change("{resources: [{name: gpu, replicas: 4, memory: 30GiB}]}")
    eventually(lambda: node.status()["config_problem"])
    assert (
        f"{first}: it can't be shared by MPS: 4 shares have more memory"
        in (node.status()["config_problem"])
    )
    assert shared.healthy() == 6


def test_time_slicing_is_beside_it_on_another_gpu(shared: Shared) -> None:
    first, second = shared.uuids()
    slices = "\n  timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [1]}]}"
    shared.change("{resources: [{name: gpu, replicas: 2, devices: [0]}]}" + slices)
    shared.wait(GPU, 5)
    ids = {*(f"{first}::{n}" for n in range(2)), *(f"{second}::{n}" for n in range(3))}
    assert set(shared.node.health(GPU)) == ids
    assert [shared.mode(gpu) for gpu in range(2)] == [EXCLUSIVE_PROCESS, DEFAULT]
    assert shared.left() == [f"{first}.settings.json"]


def test_a_fault_of_the_gpu_is_no_matter_of_mps(make_shared: MakeShared) -> None:
    shared = make_shared(4, "{resources: [{name: gpu, replicas: 2}]}", gpus=2)
    node, (first, second) = shared.node, shared.uuids()
    before = shared.state(first)
    node.sim.ctl("xid", gpu="0", number=79)
    shared.wait(GPU, 2)
    assert {
        one.partition("::")[0] for one, how in node.health(GPU).items() if how == "Healthy"
    } == {second}
    eventually(lambda: node.status()["mps"][first]["problem"] is None)
    assert shared.state(first)["daemon"] == before["daemon"]


def test_a_start_with_what_a_device_does_not_allow_shares_the_others(
    make_shared: MakeShared,
) -> None:
    shared = make_shared(1, "{resources: [{name: gpu, replicas: 50, devices: [0]}]}", gpus=2)
    assert "MPS takes from 1 to 48 clients on its architecture" in shared.node.logged()
    assert shared.left() == []
    shared.change("{resources: [{name: gpu, replicas: 2}]}")
    shared.wait(GPU, 4)


@pytest.mark.parametrize("settings", ["kept", pytest.param("lost", marks=pytest.mark.long)])
def test_what_a_crash_left_is_given_back_at_the_next_start(
    make_shared: MakeShared, settings: str
) -> None:
    shared = make_shared(3, "{resources: [{name: gpu, replicas: 3}]}")
    node, (uuid,) = shared.node, shared.uuids()
    shared.crash()
    if settings == "lost":
        (shared.settings / f"{uuid}.settings.json").unlink()
    assert shared.mode() == EXCLUSIVE_PROCESS
    shared.start("")
    shared.wait(GPU, 1)
    assert set(node.health(GPU)) == {uuid}
    assert shared.mode() == DEFAULT
    assert not os.path.ismount(shared.root / uuid / "shm")
    assert shared.left() == []


SIZES = "{{resources: [{{name: gpu, replicas: {}, memory: 900M}}], onBusy: {}, drain: 1}}"


def test_change_waits_for_clients(make_shared: MakeShared, standin: Path) -> None:
    shared = make_shared(4, SIZES.format(4, "wait"), program=standin)
    node, (uuid,) = shared.node, shared.uuids()
    client = Client(shared, uuid)
    before = shared.state(uuid)
    shared.change(SIZES.format(2, "wait"))
    eventually(lambda: "its limits change when its last client has ended" in node.logged())
    shared.wait(GPU, 0)
    eventually(lambda: node.status()["mps"][uuid]["waits_for_clients"])
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_sixteen_gpus_at_once(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=16)
    shared.start("{resources: [{name: gpu, replicas: 2}]}")
    shared.wait(GPU, 32)
    assert len({shared.state(uuid)["daemon"] for uuid in shared.uuids()}) == 16


@pytest.mark.long
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


@pytest.mark.long
def test_a_configuration_is_checked_against_the_clients(
    make_shared: MakeShared, standin: Path
) -> None:
    shared = make_shared(4, SIZES.format(4, "refuse"), program=standin)
    (uuid,) = shared.uuids()
    client = Client(shared, uuid)
    trial = shared.node.folder / "trial.yaml"
    for text, words in (
        (f"sharing:\n  mps: {SIZES.format(4, 'refuse')}\n", ""),
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
