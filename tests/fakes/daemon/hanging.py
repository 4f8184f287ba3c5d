# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVML's functions that the daemon calls, and what is asked of a node on which they hang."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
# Asked for at each look at a GPU.
EACH_LOOK = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetFieldValues",
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


class Systemd:
    """Stands in for systemd's watchdog: without a word for ``seconds``, the process is ended as there."""

    def __init__(self, node: Node, seconds: float = 30.0) -> None:
        self.longest = 0.0  # seconds without a word
        self._node, self._seconds = node, seconds
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        fed, at = 0, time.monotonic()
        while not self._ends.wait(0.1):
            now = self._node.notifications().count("WATCHDOG=1")
            if now > fed or not fed:
                fed, at = now, time.monotonic()
            self.longest = max(self.longest, time.monotonic() - at)
            if self.longest > self._seconds:
                self._node.signal(signal.SIGABRT)
                return

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


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


def until_sick(node: Node, gpus: Iterable[str], seconds: float) -> float:
    """Wait until these GPUs and no others are sick; return how long that took."""
    begun, wanted = time.monotonic(), set(gpus)
    while (now := sick(node)) != wanted:
        assert now <= wanted, f"{now - wanted} are sick too"
        assert time.monotonic() - begun < seconds, f"{wanted - now} are not sick yet"
        time.sleep(0.1)
    return time.monotonic() - begun


def until_well(node: Node, seconds: float = 15.0) -> float:
    begun = time.monotonic()
    while now := sick(node):
        assert time.monotonic() - begun < seconds, f"{now} are sick still"
        time.sleep(0.1)
    return time.monotonic() - begun


_again = itertools.count()


def open_again(node: Node) -> None:
    """Let the driver have another GPU, so that NVML is opened again and all is asked for anew."""
    (node.sim.root / f"proc/driver/nvidia/gpus/0009:{next(_again):02x}:00.0").mkdir()
