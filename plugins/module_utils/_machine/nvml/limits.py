# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory limits of cgroups, which drivers from 615 on keep. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from ..._base.gpu import FUNCTION_NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, NvmlError
from .calls import doing, or_none, pynvml

MOST = 0xFFFFFFFFFFFFFFFF  # NVML_DEVICE_MEMORY_LIMIT_MAX: no limit
FUNCTION = "nvmlDeviceSetMemoryLimits_v1"
# A driver that keeps limits for itself says either of a cgroup that has none.
NONE_SET = (NOT_FOUND, NOT_SUPPORTED)


class Limits(t.NamedTuple):
    """What a cgroup may have of a GPU's memory, in bytes: guaranteed, and at most."""

    soft: int
    hard: int


NO_LIMITS = Limits(0, MOST)


def known() -> bool:
    """Return whether pynvml knows the functions; whether the driver has them, a call tells."""
    return hasattr(pynvml, FUNCTION)


def memory_limits(uuid: str, cgroup: str) -> Limits:
    """Return the limits of a cgroup, named by its full path, on a GPU. NvmlError: it can't be asked."""
    if not known():
        raise NvmlError(FUNCTION_NOT_FOUND, "reading the memory limits of a cgroup")
    return _read(uuid, cgroup)


def set_memory_limits(uuid: str, cgroup: str, limits: Limits) -> None:
    """Limit a cgroup on a GPU. NvmlError: it can't be."""
    if not known():
        raise NvmlError(FUNCTION_NOT_FOUND, "limiting the memory of a cgroup")
    _set(uuid, cgroup, limits)


@doing("reading the memory limits of a cgroup")
def _read(uuid: str, cgroup: str) -> Limits:
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
    limits.nameSpace = cgroup.encode()
    if or_none(NONE_SET, _get, handle, limits) is None:
        return NO_LIMITS
    return Limits(limits.softLimit, limits.hardLimit)


def _get(handle: t.Any, structure: t.Any) -> t.Any:
    pynvml.nvmlDeviceGetMemoryLimits_v1(handle, structure)
    return structure


@doing("limiting the memory of a cgroup")
def _set(uuid: str, cgroup: str, limits: Limits) -> None:
    asked = pynvml.c_nvmlSetMemoryLimits_v1_t()
    asked.nameSpace = cgroup.encode()
    asked.softLimit, asked.hardLimit = limits
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    pynvml.nvmlDeviceSetMemoryLimits_v1(handle, asked)
