# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory limits of cgroups, in drivers from 615 on. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from ..._base.gpu import FUNCTION_NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, NvmlError
from .calls import doing, pynvml

MOST = 0xFFFFFFFFFFFFFFFF  # NVML_DEVICE_MEMORY_LIMIT_MAX: no limit
FUNCTION = "nvmlDeviceSetMemoryLimits_v1"
READING, LIMITING = "reading the memory limits of a cgroup", "limiting the memory of a cgroup"
# A driver that keeps limits for itself says either of a cgroup that has none.
NONE_SET = (NOT_FOUND, NOT_SUPPORTED)


class Limits(t.NamedTuple):
    """What a cgroup may have of a GPU's memory, in bytes: guaranteed, and at most."""

    soft: int
    hard: int


NO_LIMITS = Limits(0, MOST)


def known() -> bool:
    """Return whether pynvml has the functions; the driver may lack them all the same."""
    return hasattr(pynvml, FUNCTION)


@doing(READING)
def memory_limits(uuid: str, cgroup: str) -> Limits:
    """Return the limits of a cgroup, named by its full path, on a GPU.

    Raises:
        NvmlError: if they can't be read.
    """
    if not known():
        raise NvmlError(FUNCTION_NOT_FOUND, READING)
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
    limits.nameSpace = cgroup.encode()
    try:
        pynvml.nvmlDeviceGetMemoryLimits_v1(handle, limits)
    except pynvml.NVMLError as error:
        if error.value in NONE_SET:
            return NO_LIMITS
        raise
    return Limits(limits.softLimit, limits.hardLimit)


@doing(LIMITING)
def set_memory_limits(uuid: str, cgroup: str, limits: Limits) -> None:
    """Limit the memory of a cgroup on a GPU.

    Raises:
        NvmlError: if it can't be limited.
    """
    if not known():
        raise NvmlError(FUNCTION_NOT_FOUND, LIMITING)
    request = pynvml.c_nvmlSetMemoryLimits_v1_t()
    request.nameSpace = cgroup.encode()
    request.softLimit, request.hardLimit = limits
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    pynvml.nvmlDeviceSetMemoryLimits_v1(handle, request)
