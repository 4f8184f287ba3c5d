# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a look at the GPUs costs: what can't change while NVML is open is asked for once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.waiting import LIMIT

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


LOOK = """
import collections, dataclasses, json, pynvml
from gpu_plugin._shared._machine.nvml.faults import condition
from gpu_plugin._shared._machine.nvml.real import open_nvml

asked = collections.Counter()

def counted(name, function):
    def ask(*args, **more):
        asked[name] += 1
        return function(*args, **more)
    return ask

for name in [name for name in dir(pynvml) if name.startswith("nvmlDeviceGet")]:
    setattr(pynvml, name, counted(name, getattr(pynvml, name)))
looks = []
with open_nvml() as nvml:
    for _time in range(2):
        asked.clear()
        gpus, _broken = nvml.gpus()
        for gpu in gpus:
            condition(nvml.handle(gpu))
        looks.append({"asked": dict(asked), "gpus": [dataclasses.asdict(gpu) for gpu in gpus]})
print(json.dumps(looks))
"""
STAYS = {
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetCudaComputeCapability",
}
CHANGES = {
    "nvmlDeviceGetHandleByIndex",
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
}


def test_what_stays_is_asked_for_once(make_node: MakeNode) -> None:
    node = make_node(2)
    words = [sys.executable, "-c", LOOK]
    done = subprocess.run(
        words, env=node.env, check=False, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert set(first["asked"]) >= STAYS | CHANGES
    assert second["asked"] == dict.fromkeys(CHANGES, 2) | {"nvmlDeviceGetCount": 1}
    assert second["gpus"] == first["gpus"]
