# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon on a node: simulated GPUs on one side, a kubelet on the other."""

from __future__ import annotations

import hashlib
import json
import signal
from typing import TYPE_CHECKING

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


MIXED = "flags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}"


def test_whole_gpus_from_registration_to_the_end(make_node: MakeNode) -> None:
    node = make_node(4)
    node.serve(4, "flags: {plugin: {passDeviceSpecs: true}}")
    devices = node.wait(GPU, 4)["devices"]
    pod = node.admit("one", gpu=2)
    assert pod["envs"] == {"NVIDIA_VISIBLE_DEVICES": ",".join(pod["devices"][GPU])}
    nodes = [one["container"] for one in pod["device_nodes"]]
    assert nodes[0] == "/dev/nvidiactl"
    assert nodes[-2:] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert all(one["numa"] for one in devices.values())

    node.registered()
    state = node.status()
    assert state["state"] == "serving"
    assert state["driver_version"] == "550.163.01"
    assert state["config_sha256"] == hashlib.sha256(node.config.read_bytes()).hexdigest()
    assert set(state["gpu_uuids"]) == set(devices) == set(state["resources"][GPU]["devices"])
    assert state["health"] == []
    eventually(lambda: "STATUS=serving: 4 devices of 1 resources" in node.notifications())
    assert "READY=1" in node.notifications()
    eventually(node.fed)
    shown = node.cli("status", "--status-file", node.status_file)
    assert "nvidia.com/gpu: 4 of 4 healthy, registered" in shown.stdout
    assert node.cli("status", "--json", "--status-file", node.status_file).returncode == 0

    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert [path.name for path in node.plugins.glob("nvidia-*")] == []
    assert not node.status_file.exists()
    assert "STOPPING=1" in node.notifications()
    assert node.cli("status", "--status-file", node.status_file).returncode == 3


def test_mig_devices_come_and_go(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(0, "3g.40gb", "1g.10gb", "1g.10gb")
    node.serve(1, MIXED)
    node.wait("nvidia.com/mig-1g.10gb", 2)
    node.wait("nvidia.com/mig-3g.40gb", 1)
    pod = node.admit("one", **{"mig-1g.10gb": 1})
    (uuid,) = pod["devices"]["nvidia.com/mig-1g.10gb"]
    assert uuid.startswith("MIG-")
    assert pod["envs"] == {"NVIDIA_VISIBLE_DEVICES": uuid}
    instance = next(
        one for one in node.sim.ctl("status")["gpus"][0]["mig_devices"] if one["uuid"] == uuid
    )
    minors = [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in instance["minors"]]
    assert [one["container"] for one in pod["device_nodes"]][-3:] == ["/dev/nvidia0", *minors]

    node.ask("release", pod="one")
    node.layout(0, "2g.20gb")
    node.wait("nvidia.com/mig-2g.20gb", 1)
    eventually(lambda: node.resources().get("nvidia.com/mig-1g.10gb") == 0)
    assert node.ask("resources")["nvidia.com/mig-1g.10gb"]["capacity"] == 0
    node.layout(0)
    node.wait(GPU, 2)
    eventually(lambda: not node.status()["mig_uuids"])


def test_single_refuses_until_the_gpus_fit(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "3g.40gb", "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: single}")
    state = eventually(lambda: node.status() if node.status()["state"] == "refused" else None)
    assert "found 1g.10gb, 3g.40gb" in state["problem"]
    assert node.resources() == {}
    node.layout(0, "3g.40gb", "3g.40gb")
    assert all(name.startswith("MIG-") for name in node.wait(GPU, 2)["devices"])


def test_a_kubelet_that_restarts_or_comes_late(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_daemon()
    eventually(lambda: GPU in node.status()["resources"])
    assert node.status()["resources"][GPU]["registered"] is False
    node.start_kubelet()
    node.wait(GPU, 2)
    node.ask("restart")
    node.wait(GPU, 2)
    (node.plugins / "nvidia-gpu.sock").unlink()
    eventually(lambda: node.logged().count("registered resource") == 3)
    node.wait(GPU, 2)
    assert node.admit("one", gpu=1)["envs"]


def test_a_driver_that_comes_late_goes_and_comes_back(make_node: MakeNode) -> None:
    node = make_node(2, driver=None)
    node.start_kubelet()
    node.start_daemon()
    eventually(lambda: node.status()["state"] == "waiting_for_driver")
    eventually(lambda: "READY=1" in node.notifications())
    node.sim.ctl("load", version="550.163.01", flavour="open")
    node.wait(GPU, 2)
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    assert set(node.health(GPU).values()) == {"Unhealthy"}
    eventually(lambda: node.status()["state"] == "waiting_for_driver")
    node.sim.ctl("load", version="550.163.01", flavour="open")
    node.wait(GPU, 2)


def test_nothing_is_said_while_nothing_happens(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2, MIXED, "--rescan", "0.1")
    node.registered()
    eventually(lambda: "pods" in node.status()["chores"])  # which begins last

    def told() -> tuple[str, int]:
        return node.logged(), node.status_file.stat().st_ino  # it is replaced where it changes

    first = node.looks()
    eventually(lambda: node.looks() > first + 3)
    said = told()
    unchanged(told, said, node.looks, 10)
    node.sim.ctl("xid", gpu="1", number=31)
    eventually(lambda: told() != said)


def test_gpus_that_come_to_the_driver_and_go(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    gpus = node.sim.root / "proc/driver/nvidia/gpus"
    other, again = gpus / "0000:ff:00.0", node.folder / "again"
    other.mkdir()
    eventually(
        lambda: "the driver has other GPUs than before, opening NVML again count=3" in node.logged()
    )
    again.mkdir()
    other.rename(node.folder / "gone")  # the next look finds another one at the same address
    again.rename(other)
    eventually(lambda: node.logged().count("opening NVML again count=3") == 2)
    before = node.logged().count("opening NVML again count=2")
    other.rmdir()
    eventually(lambda: node.logged().count("opening NVML again count=2") > before)
    assert node.wait(GPU, 2)["allocatable"] == 2
    node.sim.ctl("xid", gpu="1", number=79)  # events are waited for as before
    node.wait(GPU, 1)


def test_a_driver_that_was_replaced_needs_a_new_process(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1)
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceGetCount_v2", code=18, times=1)
    eventually(lambda: node.logged().count("info: started") == 2)
    assert "the driver was replaced, restarting" in node.logged()
    assert "STOPPING=1" not in node.notifications()
    node.wait(GPU, 1)


def test_only_who_asks_for_it_gets_an_end_without_a_driver(make_node: MakeNode) -> None:
    node = make_node(1, driver=None)
    node.start_daemon("flags: {failOnInitError: true}")
    assert node.ended() == 1
    assert "ends, since failOnInitError is set" in node.logged()
    assert "READY=1" not in node.notifications()


def test_a_mig_device_of_an_unknown_profile_is_told_of(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(0, "1g.10gb")
    (device,) = node.sim.ctl("status")["gpus"][0]["mig_devices"]
    unknown = {"function": "nvmlDeviceGetGpuInstanceProfileInfoV", "code": 3, "times": 1}
    node.sim.ctl("fault", gpu="0", **unknown)  # of the first profile, that of one slice
    node.serve(1, MIXED)
    note = f"MIG device {device['uuid']} is not advertised: NVML names no profile of it"
    eventually(lambda: note in node.logged())
    assert "has no MIG devices" not in node.logged()
    assert node.logged().count(note) == 1


def test_a_lost_gpu_hides_no_other(make_node: MakeNode) -> None:
    node = make_node(3)
    before = set(node.serve(3))
    node.sim.ctl("lose", gpu="1")
    node.wait(GPU, 2)
    lost = node.uuids()[1]
    assert node.health(GPU)[lost] == "Unhealthy"
    assert set(node.health(GPU)) == before
    problems = eventually(lambda: node.problems(GPU))
    assert "fallen off the bus" in problems[lost]
    assert lost not in node.admit("one", gpu=2)["devices"][GPU]
    node.sim.ctl("restore", gpu="1")
    node.wait(GPU, 3)


def test_an_xid_takes_all_of_a_gpu_until_its_driver_is_loaded_anew(make_node: MakeNode) -> None:
    node = make_node(2)
    node.layout(0, "1g.10gb", "1g.10gb")
    node.serve(1, MIXED)
    node.wait("nvidia.com/mig-1g.10gb", 2)
    node.sim.ctl("xid", gpu="0", number=31)
    node.sim.ctl("xid", gpu="0", number=79, gi=1, ci=0)
    node.wait("nvidia.com/mig-1g.10gb", 0)
    assert "xid=31" in node.logged()
    assert node.resources()[GPU] == 1
    node.sim.ctl("unload")
    node.wait(GPU, 0)
    node.sim.ctl("load", version="550.163.01", flavour="open")
    node.wait(GPU, 2)  # this product's MIG mode goes with the driver


def test_a_new_configuration_is_taken_and_a_bad_one_is_not(make_node: MakeNode) -> None:
    node = make_node(1)
    node.serve(1)
    node.config.write_text("flags: {plugin: {deviceIDStrategie: index}}")
    node.signal(signal.SIGHUP)
    eventually(lambda: "configuration refused, the one before stays" in node.logged())
    assert "did you mean flags.plugin.deviceIDStrategy?" in node.logged()
    assert node.admit("one", gpu=1)["envs"]["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-")
    node.ask("release", pod="one")
    node.config.write_text("flags: {plugin: {deviceIDStrategy: index}}")
    node.signal(signal.SIGHUP)
    eventually(lambda: "configuration loaded" in node.logged())
    digest = hashlib.sha256(node.config.read_bytes()).hexdigest()
    eventually(lambda: node.status()["config_sha256"] == digest)
    assert node.admit("two", gpu=1)["envs"] == {"NVIDIA_VISIBLE_DEVICES": "0"}
    eventually(lambda: "RELOADING=1" in node.notifications())


def test_flags_and_environment(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon(
        "", "--device-id-strategy=index", "--pass-device-specs", PASS_DEVICE_SPECS="0"
    )
    node.wait(GPU, 1)
    pod = node.admit("one", gpu=1)
    assert pod["envs"] == {"NVIDIA_VISIBLE_DEVICES": "0"}
    assert pod["device_nodes"]


def test_check_config(make_node: MakeNode) -> None:
    node = make_node(1)
    node.config.write_text(json.dumps({"flags": {"migStrategy": "mixed"}}))
    assert node.cli("check-config", node.config).stdout == f"{node.config}: valid\n"
    node.config.write_text("flags: {migStrateg: mixed}")
    refused = node.cli("check-config", node.config)
    assert refused.returncode == 1
    assert "did you mean flags.migStrategy?" in refused.stderr
    assert node.cli("check-config", "/none").returncode == 1
    status = ("--status-file", node.status_file)
    assert node.cli("run", "--config", "/none", *status).returncode == 1
