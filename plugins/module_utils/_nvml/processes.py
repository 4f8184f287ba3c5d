# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The processes on GPUs and MIG devices, by their handles."""

from __future__ import annotations

import typing as t

from .._core.gpu import NOT_SUPPORTED, Gpu, Process
from .._core.text.printable import printable
from .calls import or_none, pynvml, text

NOT_THERE = (None, 0xFFFFFFFF)


def processes(gpu: Gpu, devices: t.Iterable[t.Any]) -> t.List[Process]:
    """Return the processes on a GPU, given the handles of itself and its MIG devices."""
    found = {}
    kinds = (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    )
    for device in devices:
        for kind in kinds:
            for one in or_none((NOT_SUPPORTED,), kind, device) or ():
                gi, ci = (
                    None if number in NOT_THERE else number
                    for number in (one.gpuInstanceId, one.computeInstanceId)
                )
                found[one.pid, gi, ci] = Process(one.pid, _name(one.pid), gpu.uuid, gi, ci)
    return sorted(found.values(), key=lambda one: one.pid)


def _name(pid: int) -> str:
    try:
        return printable(text(pynvml.nvmlSystemGetProcessName(pid)))
    except UnicodeDecodeError as error:
        return printable(error.object.decode(errors="replace"))
    except pynvml.NVMLError:
        return ""
