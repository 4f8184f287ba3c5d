# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Processes on a device."""

from __future__ import annotations

import struct

from ..call import Call, api
from ..engine import Process
from .system import program

NONE = 0xFFFFFFFF
PATH_MAX = 4096  # of Linux


@api(
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
def compute(call: Call) -> None:
    call.put_list(1, 2, [_entry(one) for one in _found(call)])


@api("nvsimComputeProcesses")
def detailed(call: Call) -> None:
    """As nvidia-smi asks by the private table: protected memory and the name follow in each entry."""
    call.put_list(1, 2, [_entry(one) + _more(one) for one in _found(call)])


def _more(one: Process) -> bytes:
    return struct.pack(f"<Q{PATH_MAX}s", 0, (program(one.pid) or b"")[: PATH_MAX - 1])


def _found(call: Call) -> list[Process]:
    gpu = call.gpu()
    if call.is_mig():
        gpu, gi, ci = call.mig()
        return call.engine.on(gpu, gi.id, ci.id)
    return call.engine.on(gpu)


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
