# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of a GPU by their handles: profiles, instances and processes."""

from __future__ import annotations

import ctypes
import typing as t

from ..._base.errors import InputError
from ..._base.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, GiProfile, Gpu, Process
from ..._base.mig_profile import canonical, name_from_sizes
from ..._base.text.shown import printable
from .calls import (
    INVALID_ARGUMENT,
    VERSION_MISMATCH,
    ask_text,
    instance,
    listed,
    or_none,
    pynvml,
    text,
)

ROOM = 16  # more than any GPU's instances; some report too small a count
NO_PROFILE = (NOT_SUPPORTED, INVALID_ARGUMENT)


def gi_profiles(handle: t.Any, gpu: Gpu) -> t.List[GiProfile]:
    """Return the profiles of a GPU's instances; newer drivers have more than pynvml knows of."""
    asked = (_gi_profile(handle, gpu, number) for number in range(32))
    return [profile for profile in asked if profile is not None]


def _gi_profile(handle: t.Any, gpu: Gpu, number: int) -> t.Optional[GiProfile]:
    ask = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
    try:
        info = or_none(NO_PROFILE, ask, handle, number, version=2)
        reported = text(info.name) if info else ""
    except pynvml.NVMLError as error:
        if error.value not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
            raise
        info, reported = ask(handle, number, version=1), ""
    if info is None:
        return None
    try:
        name = canonical(reported)
    except InputError:
        name = name_from_sizes(info.sliceCount, info.memorySizeMB, gpu.memory_total, number)
    placements = listed(
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements,
        pynvml.c_nvmlGpuInstancePlacement_t,
        handle,
        info.id,
    )
    return GiProfile(
        id=info.id,
        enum=number,
        name=name,
        slices=info.sliceCount,
        max_count=info.instanceCount,
        memory_mb=info.memorySizeMB,
        placements=tuple((placement.start, placement.size) for placement in placements),
    )


def ci_profiles(gi: t.Any) -> t.Dict[int, int]:
    """Return the profiles of a GPU instance's compute instances by id, with their slices."""
    ask = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    numbers = range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
    asked = (or_none(NO_PROFILE, ask, gi, number, 0, version=1) for number in numbers)
    return {profile.id: profile.sliceCount for profile in asked if profile is not None}


def instances(parent: t.Any, profile_id: int, *, compute: bool) -> t.List[t.Any]:
    """Return handles of the instances of a profile. They stay valid: an element of the array is only a view of it."""
    ask, kind = (
        (pynvml.nvmlGpuInstanceGetComputeInstances, pynvml.c_nvmlComputeInstance_t)
        if compute
        else (pynvml.nvmlDeviceGetGpuInstances, pynvml.c_nvmlGpuInstance_t)
    )
    array, count = (kind * ROOM)(), ctypes.c_uint()
    ask(parent, profile_id, array, ctypes.byref(count))
    return [ctypes.cast(ctypes.cast(array[i], ctypes.c_void_p), kind) for i in range(count.value)]


def processes(gpu: Gpu, devices: t.Iterable[t.Any]) -> t.List[Process]:
    """Return the processes on a GPU, given the handles of itself and its MIG devices."""
    by_pid = {}
    kinds = (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    )
    for device in devices:
        for kind in kinds:
            for info in or_none((NOT_SUPPORTED,), kind, device) or ():
                gi, ci = instance(info.gpuInstanceId), instance(info.computeInstanceId)
                by_pid[info.pid, gi, ci] = Process(info.pid, _name(info.pid), gpu.uuid, gi, ci)
    return sorted(by_pid.values(), key=lambda info: info.pid)


def _name(pid: int) -> str:
    try:
        return printable(ask_text(pynvml.nvmlSystemGetProcessName, pid))
    except pynvml.NVMLError:
        return ""
