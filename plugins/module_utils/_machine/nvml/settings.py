# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU is set to, and setting it. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from ..._base.gpu import (
    ACCOUNTING,
    COMPUTE,
    COMPUTE_MODES,
    ECC,
    GPU_CLOCKS,
    MEMORY_CLOCKS,
    NOT_SUPPORTED,
    PERSISTENCE,
    POWER,
    SettingsTold,
    Value,
)
from .calls import doing, pynvml, reported


@doing("reading the settings of a GPU")
def settings(handle: t.Any) -> SettingsTold:
    """Return what the GPU with this handle is set to. NvmlError: it is lost or wants a reset."""
    limits = reported(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)
    mode = reported(pynvml.nvmlDeviceGetComputeMode, handle)
    ecc = reported(pynvml.nvmlDeviceGetEccMode, handle)
    modes = {number: name for name, number in COMPUTE_MODES.items()}
    found: t.Dict[str, Value] = {
        PERSISTENCE: _flag(pynvml.nvmlDeviceGetPersistenceMode, handle),
        POWER: limits and reported(pynvml.nvmlDeviceGetPowerManagementLimit, handle),
        ECC: None if ecc is None else bool(ecc[0]),
        COMPUTE: None if mode is None else modes.get(mode, str(mode)),
        ACCOUNTING: _flag(pynvml.nvmlDeviceGetAccountingMode, handle),
    }
    memory = reported(pynvml.nvmlDeviceGetSupportedMemoryClocks, handle)
    graphics = memory and reported(pynvml.nvmlDeviceGetSupportedGraphicsClocks, handle, max(memory))
    clocks = {
        name: (min(those), max(those))
        for name, those in ((GPU_CLOCKS, graphics), (MEMORY_CLOCKS, memory))
        if those
    }
    kinds = {GPU_CLOCKS: pynvml.NVML_CLOCK_GRAPHICS, MEMORY_CLOCKS: pynvml.NVML_CLOCK_MEM}
    runs = {name: reported(pynvml.nvmlDeviceGetClockInfo, handle, kinds[name]) for name in clocks}
    return SettingsTold(
        now={name: value for name, value in found.items() if value is not None},
        power=(0, 0) if limits is None else (int(limits[0]), int(limits[1])),
        power_default=reported(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle) or 0,
        clocks=clocks,
        running={name: int(value) for name, value in runs.items() if value is not None},
        ecc_next=None if ecc is None else bool(ecc[1]),
        energy=reported(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle),
    )


@doing("reading the persistence mode of a GPU")
def persistent(handle: t.Any) -> t.Optional[bool]:
    """Return the persistence mode of the GPU with this handle, which it tells also where it wants a reset."""
    return _flag(pynvml.nvmlDeviceGetPersistenceMode, handle)


def _flag(ask: t.Callable[..., t.Any], handle: t.Any) -> t.Optional[bool]:
    found = reported(ask, handle)
    return None if found is None else bool(found)


@doing("setting a GPU")
def set_to(handle: t.Any, name: str, value: Value) -> None:
    """Set one setting of the GPU with this handle; clocks to None for no lock. NvmlError: the GPU does not take it."""
    if isinstance(value, tuple):
        _LOCKS[name](handle, *value)
    elif value is None:
        _UNLOCKS[name](handle)
    else:
        _SETTERS[name](handle, COMPUTE_MODES[value] if isinstance(value, str) else int(value))


def _named(name: str) -> t.Callable[..., t.Any]:
    """Return a call of NVML's, which bindings that are not there or older lack."""

    def call(*args: t.Any) -> t.Any:
        ask = getattr(pynvml, name, None)
        if ask is None:
            raise pynvml.NVMLError(NOT_SUPPORTED)
        return ask(*args)

    return call


_SETTERS = {
    PERSISTENCE: _named("nvmlDeviceSetPersistenceMode"),
    POWER: _named("nvmlDeviceSetPowerManagementLimit"),
    ECC: _named("nvmlDeviceSetEccMode"),
    COMPUTE: _named("nvmlDeviceSetComputeMode"),
    ACCOUNTING: _named("nvmlDeviceSetAccountingMode"),
}
_LOCKS = {
    GPU_CLOCKS: _named("nvmlDeviceSetGpuLockedClocks"),
    MEMORY_CLOCKS: _named("nvmlDeviceSetMemoryLockedClocks"),
}
_UNLOCKS = {
    GPU_CLOCKS: _named("nvmlDeviceResetGpuLockedClocks"),
    MEMORY_CLOCKS: _named("nvmlDeviceResetMemoryLockedClocks"),
}
