# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Processes on a device."""

from __future__ import annotations

import struct

from ..call import Call, api
from ..engine import Process

NONE = 0xFFFFFFFF


@api(
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
def compute(call: Call) -> None:
    gpu = call.gpu()
    if call.is_mig():
        gpu, gi, ci = call.mig()
        found = call.engine.on(gpu, gi.id, ci.id)
    else:
        found = call.engine.on(gpu)
    call.put_list(1, 2, [_entry(one) for one in found])


def _entry(one: Process) -> bytes:
    gi = NONE if one.gi is None else one.gi
    ci = NONE if one.ci is None else one.ci
    return struct.pack("<IxxxxQII", one.pid, one.memory, gi, ci)


@api(
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
)
def none(call: Call) -> None:
    call.gpu()
    call.put_list(1, 2, [])
