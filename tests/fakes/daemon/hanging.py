# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVML's functions that the daemon calls, and what is asked of a node on which they hang."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tests.fakes.daemon.running import plugin_channel
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

MIG = "nvidia.com/mig-1g.10gb"
# Asked for at each look at a GPU.
EACH_LOOK = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetRepairStatus",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetTotalEnergyConsumption",
)
# And of one in MIG mode.
EACH_LOOK_MIG = (
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
)
# Asked for once while NVML is open.
ONCE = (
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetTopologyCommonAncestor",
)
ONCE_CABLED = ("nvmlDeviceGetNvLinkRemotePciInfo_v2",)  # where links lead to other GPUs
# And of the first GPU of its model in MIG mode.
ONCE_MIG = (
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
)
OF_NO_GPU = ("nvmlDeviceGetCount_v2", "nvmlSystemGetDriverVersion")
AT_OPENING = ("nvmlInitWithFlags", "nvmlEventSetCreate", "nvmlSystemGetCudaDriverVersion")
EVENTS = ("nvmlEventSetWait_v2", "nvmlEventSetFree")
ALL = (
    *(*EACH_LOOK, *EACH_LOOK_MIG, *ONCE, *ONCE_CABLED, *ONCE_MIG),
    *(*OF_NO_GPU, *AT_OPENING, *EVENTS),
)


@contextlib.contextmanager
def one_process(node: Node) -> Iterator[None]:
    """The daemon is the same process afterwards: it was not restarted, and did not start itself again."""
    before = node.logged().count("info: started")
    yield
    assert node.daemon is not None
    assert node.daemon.poll() is None
    assert node.logged().count("info: started") == before


def serves(node: Node, well: str, sick: str) -> None:
    """While something hangs, a GPU that is well is given out, one that is sick is not, and the watchdog is fed."""
    fed = node.fed()
    with plugin_channel(node) as ask:
        eventually(lambda: ask(well), "")
        assert ask(sick)
    eventually(lambda: node.fed() > fed + 1)


def hears(node: Node, gpu: str, number: int = 31) -> None:
    """An application's XID of a GPU is logged, which changes nothing else."""
    said = node.logged().count(f"gpu={gpu} xid={number}")
    node.sim.ctl("xid", gpu=gpu, number=number)
    eventually(lambda: node.logged().count(f"gpu={gpu} xid={number}") > said)


def each_its_own(functions: Iterable[str], gpus: Iterable[str]) -> dict[str, str]:
    """Return for each function a GPU of which it hangs."""
    return dict(zip(functions, gpus, strict=False))


def hang(node: Node, of: Mapping[str, str]) -> None:
    for function, gpu in of.items():
        node.sim.ctl("hang", function=function, gpu=gpu)


def health(node: Node) -> dict[str, str]:
    """Return how all devices are, by the GPU's UUID; a GPU has one device at most."""
    gpus = {one["uuid"]: one["uuid"] for one in node.sim.ctl("status")["gpus"]}
    for gpu in node.sim.ctl("status")["gpus"]:
        gpus |= {mig["uuid"]: gpu["uuid"] for mig in gpu["mig_devices"]}
    found = {}
    for resource in node.ask("resources").values():
        for device, one in resource["devices"].items():
            found[gpus[device]] = str(one["health"])
    return found


def sick(node: Node) -> set[str]:
    return {gpu for gpu, one in health(node).items() if one == "Unhealthy"}


def until_sick(node: Node, gpus: Iterable[str]) -> None:
    """Wait until these GPUs and no others are sick."""
    eventually(lambda: sick(node), set(gpus))


def until_well(node: Node) -> None:
    """Wait until each GPU that there is has devices, and none is sick."""
    eventually(lambda: not sick(node) and len(health(node)) == len(node.uuids()))


LOOKS = 5  # those after which a GPU that was late is asked for its connections, and some more


def until_settled(node: Node) -> None:
    """Wait until the daemon asks for nothing any more that it asks for once.

    What hangs earlier may do so before NVML is opened again, which is then not done.
    """
    looks = 0
    node.sim.ctl("called")

    def is_settled() -> bool:
        nonlocal looks
        calls = node.sim.ctl("called")
        looks += sum(calls.get("nvmlDeviceGetCount_v2", {}).values())
        if not calls.keys().isdisjoint((*ONCE, *ONCE_CABLED, *ONCE_MIG)):
            looks = 0
        return looks >= LOOKS

    eventually(is_settled)


def hang_at_opening(node: Node, of: Mapping[str, str]) -> None:
    """Have functions hang once NVML is opened again."""
    until_settled(node)
    hang(node, of)
    open_again(node)


_again = itertools.count()


def open_again(node: Node) -> None:
    """Let the driver have another GPU, so that NVML is opened again and all is asked for anew."""
    (node.sim.root / f"proc/driver/nvidia/gpus/0009:{next(_again):02x}:00.0").mkdir()
