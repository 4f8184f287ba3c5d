# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers that have a GPU by their device nodes, though the kubelet names nobody."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.dra.checkpoint import (
    PREPARED,
    Instance,
    PreparedClaim,
    dump,
    entry,
)
from ansible_collections.gpu.node.plugins.module_utils._base.dra.checkpoint import (
    Device as ClaimDevice,
)
from ansible_collections.gpu.node.plugins.module_utils._base.dra.names import CHECKPOINT as CLAIMS
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import MIG_MINORS
from ansible_collections.gpu.node.plugins.module_utils._base.knowledge import (
    Absent,
    Knowledge,
    Known,
    Unknown,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.devices import Device
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import names
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine import allocated
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.witness import (
    CHECKPOINT,
    KMSG,
    unreported,
)

from tests.fakes.library.fakes import FakeHost

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
ID = "4b1d" * 16
NULL, UVM = Device(1, 3), Device(510, 0)
WHOLE, INSTANCE, COMPUTE = Device(195, 0), Device(511, 39), Device(511, 40)
KUBELET, INIT, CHILD = 600, 700, 701
NOBODY = '{"version": 1, "allocations": []}'
FILES = {
    SOCKET: "",
    "/proc/devices": "Character devices:\n195 nvidia\n510 nvidia-uvm\n511 nvidia-caps\n236 nvidia-caps-imex-channels\n",
    "/proc/driver/nvidia/gpus/0000:18:00.0/information": "",
    "/proc/driver/nvidia/gpus/0000:2a:00.0/information": "",
    "/proc/driver/nvidia/capabilities/mig/config": "",
    MIG_MINORS: "config 1\nmonitor 2\ngpu1/gi4/access 39\ngpu1/gi4/ci0/access 40\n",
    f"/var/log/pods/team_train_{UID}/main/0.log": "",
}
WORDS = f"pod team/train (container {ID[:12]}) with {{}}, of which the kubelet does not know"


def stat(began: int, state: str = "S") -> str:
    """Return /proc/<pid>/stat of a process that started so many ticks after the boot."""
    return f"1 (a) b) {state} {' '.join(['0'] * 18)} {began} 0\n"


def cgroup(uid: str = UID) -> str:
    name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    return f"0::/kubepods.slice/kubepods-burstable.slice/{name}/cri-containerd-{ID}.scope\n"


def node(
    visible: Knowledge[frozenset[Device]],
    *opened: Device,
    began: int = 500,
    answer: str = NOBODY,
    **files: str,
) -> FakeHost:
    """Return a node whose kubelet started at tick 600 and a container of which sees these devices in its /dev."""
    host = FakeHost(dict(FILES), {(PROGRAM, "pods"): answer})
    host.files.update(files)
    host.files[f"/proc/{KUBELET}/stat"] = stat(600)
    host.listeners[SOCKET] = KUBELET
    for pid in (INIT, CHILD):
        host.files[f"/proc/{pid}/cgroup"] = cgroup()
    host.files[f"/proc/{INIT}/stat"], host.files[f"/proc/{CHILD}/stat"] = stat(began), stat(9000)
    host.seen_devices[INIT] = visible
    for number, device in enumerate(opened, 3):
        host.links[f"/proc/{CHILD}/fd/{number}"] = path = f"/somewhere/{number}"
        host.devices[path] = device
    return host


def sees(*devices: Device) -> Knowledge[frozenset[Device]]:
    return Known(frozenset((NULL, *devices)))


def claim(*devices: ClaimDevice) -> PreparedClaim:
    """Return a claim of the container's pod."""
    return PreparedClaim("c", "n", "c", PREPARED, devices, (UID,))


def holders(host: FakeHost) -> list[str]:
    return list(names(allocated.observe(host)))


def divided(host: FakeHost) -> FakeHost:
    host.files["/proc/driver/nvidia/capabilities/gpu1/mig/gi4/access"] = ""
    return host


def test_a_container_that_the_kubelet_has_forgotten_has_the_gpu_that_it_sees() -> None:
    assert holders(node(sees(WHOLE))) == [WORDS.format("nvidia0")]


def test_a_container_that_the_kubelet_has_forgotten_has_the_instance_that_it_sees() -> None:
    seen = sees(Device(195, 1), INSTANCE, COMPUTE, Device(195, 255))
    assert holders(divided(node(seen))) == [WORDS.format("nvidia1/gi4")]


def test_a_gpu_in_mig_mode_is_not_held_by_its_own_node_alone() -> None:
    assert holders(divided(node(sees(Device(195, 1), Device(195, 255))))) == []


def test_a_device_that_is_open_counts_without_a_node_of_it() -> None:
    assert holders(node(sees(), WHOLE)) == [WORDS.format("nvidia0")]


def test_a_container_without_gpus_has_none() -> None:
    assert holders(node(sees(Device(195, 255), UVM))) == []


@pytest.mark.parametrize(
    "host",
    [
        node(sees(WHOLE), began=601),
        node(
            sees(WHOLE),
            answer=json.dumps(
                {
                    "version": 1,
                    "allocations": [
                        {
                            "namespace": "team",
                            "pod": "train",
                            "container": "main",
                            "resource": "nvidia.com/gpu",
                            "device": "0",
                        }
                    ],
                }
            ),
        ),
        node(
            sees(WHOLE),
            **{CLAIMS: dump({"c": entry(claim(ClaimDevice("r", "p", "gpu-0", "GPU-0", 0)))})},
        ),
    ],
    ids=["it started after the kubelet", "the kubelet names its pod", "a claim names its pod"],
)
def test_a_container_that_somebody_answers_for_is_not_reported_again(host: FakeHost) -> None:
    assert [one for one in holders(host) if "does not know" in one] == []


def test_without_a_kubelet_every_container_counts() -> None:
    host = node(sees(WHOLE), began=601)
    host.listeners.clear()
    del host.files[SOCKET]
    assert holders(host) == [WORDS.format("nvidia0")]


def test_a_kubelet_that_starts_answers_by_its_checkpoint() -> None:
    entries = [
        {
            "PodUID": UID,
            "ContainerName": "main",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": ["0"],
        }
    ]
    kept = json.dumps({"Data": {"PodDeviceEntries": entries}})
    host = node(sees(WHOLE), **{CHECKPOINT: kept})
    assert unreported(host, (), SOCKET, starting=True) == ()
    assert len(unreported(host, (), SOCKET)) == 1
    del host.files[f"/var/log/pods/team_train_{UID}/main/0.log"]  # the pod's name is not known
    assert unreported(host, (), SOCKET) == ()


LINK = f"/var/log/containers/train_team_main-{ID}.log"


@pytest.mark.parametrize("container", ["main", "beside"])
def test_a_kubelet_answers_for_the_containers_that_it_names_alone(container: str) -> None:
    """It gives devices anew to a container that it restarts, and names no other of that pod."""
    given = {"namespace": "team", "pod": "train", "container": container, "device": "0"}
    allocation = {**given, "resource": "nvidia.com/gpu"}
    answer = json.dumps({"version": 1, "allocations": [allocation]})
    host = node(sees(WHOLE), answer=answer, **{LINK: ""})
    forgotten = [one for one in holders(host) if "does not know" in one]
    assert forgotten == ([] if container == "main" else [WORDS.format("nvidia0")])


@pytest.mark.parametrize("container", ["main", "beside"])
def test_a_checkpoint_answers_for_the_containers_that_it_names_alone(container: str) -> None:
    entries = [
        {
            "PodUID": UID,
            "ContainerName": container,
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": ["0"],
        }
    ]
    kept = json.dumps({"Data": {"PodDeviceEntries": entries}})
    host = node(sees(WHOLE), **{CHECKPOINT: kept, LINK: ""})
    assert len(unreported(host, (), SOCKET, starting=True)) == (container != "main")


@pytest.mark.parametrize(
    ("device", "forgotten"),
    [
        (ClaimDevice("r", "p", "gpu-0", "GPU-0", 0), ["nvidia1/gi4"]),
        (
            ClaimDevice("r", "p", "m", "GPU-1", 1, instance=Instance(19, 4, True, 4)),
            ["nvidia0"],
        ),
    ],
)
def test_a_claim_answers_for_the_devices_that_it_has_alone(
    device: ClaimDevice, forgotten: list[str]
) -> None:
    seen = sees(WHOLE, Device(195, 1), INSTANCE, COMPUTE)
    kept = dump({"c": entry(claim(device))})
    host = divided(node(seen, **{CLAIMS: kept}))
    assert [one for one in holders(host) if "does not know" in one] == [
        WORDS.format(one) for one in forgotten
    ]


EVERY = (Device(195, 0), Device(195, 1))


@pytest.mark.parametrize("seen", [Absent(), sees(KMSG, *EVERY)], ids=["hostPath", "privileged"])
def test_a_container_that_sees_all_devices_has_those_that_its_cuda_programs_have(
    seen: Knowledge[frozenset[Device]],
) -> None:
    assert holders(node(seen)) == []
    assert holders(node(seen, *EVERY)) == []  # a device plugin, or another that asks NVML
    assert holders(node(seen, WHOLE, UVM)) == [WORDS.format("nvidia0")]


def test_a_program_that_watches_all_gpus_has_none() -> None:
    assert holders(node(sees(*EVERY), *EVERY)) == []
    assert len(holders(node(sees(*EVERY), *EVERY, UVM))) == 2
    assert len(holders(node(sees(*EVERY)))) == 2


def test_processes_of_no_pod_are_no_holders() -> None:
    host = node(sees(WHOLE), WHOLE)
    for pid in (INIT, CHILD):
        host.files[f"/proc/{pid}/cgroup"] = "0::/system.slice/nvidia-persistenced.service\n"
    assert holders(host) == []


def test_devices_that_can_not_be_read_are_not_taken_for_none() -> None:
    with pytest.raises(NodeError, match="which GPUs pod team/train has") as refused:
        holders(node(Unknown("/dev of process 700 can't be read: Permission denied")))
    assert "Permission denied" in refused.value.cause
    assert "drain the node" in refused.value.hint


def test_a_container_that_has_ended_has_nothing() -> None:
    host = node(sees(WHOLE))
    host.files[f"/proc/{INIT}/stat"] = stat(500, "Z")
    del host.files[f"/proc/{CHILD}/stat"]
    assert holders(host) == []
