# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The settings of a GPU. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from ..._base.gpu import (
    ACCOUNTING,
    COMPUTE,
    COMPUTE_MODES,
    ECC,
    GPU_CLOCKS,
    GPU_IS_LOST,
    MEMORY_CLOCKS,
    MESSAGES,
    MISSING,
    PERSISTENCE,
    POWER,
    POWER_PROFILES,
    RESET_REQUIRED,
    Profiles,
    SettingsTold,
    Value,
)
from .calls import asking, doing, or_none, pynvml, reported
from .profiles import power_profiles, request_profiles


@doing("reading the settings of a GPU")
def settings(handle: t.Any) -> SettingsTold:
    """Return the settings of a GPU.

    Raises:
        NvmlError: if it is lost or needs a reset.
    """
    ask = _Reader(handle)
    limits = ask(POWER, pynvml.nvmlDeviceGetPowerManagementLimitConstraints)
    mode = ask(COMPUTE, pynvml.nvmlDeviceGetComputeMode)
    ecc = ask(ECC, pynvml.nvmlDeviceGetEccMode)
    profiles = ask(POWER_PROFILES, power_profiles)
    modes = {number: name for name, number in COMPUTE_MODES.items()}
    values: t.Dict[str, Value] = {
        PERSISTENCE: ask.flag(PERSISTENCE, pynvml.nvmlDeviceGetPersistenceMode),
        POWER: limits and ask(POWER, pynvml.nvmlDeviceGetPowerManagementLimit),
        POWER_PROFILES: profiles and profiles.requested,
        ECC: None if ecc is None else bool(ecc[0]),
        COMPUTE: None if mode is None else modes.get(mode, str(mode)),
        ACCOUNTING: ask.flag(ACCOUNTING, pynvml.nvmlDeviceGetAccountingMode),
    }
    enforced: t.Dict[str, Value] = {
        POWER: limits and reported(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        POWER_PROFILES: profiles and profiles.enforced,
    }
    memory = ask(MEMORY_CLOCKS, pynvml.nvmlDeviceGetSupportedMemoryClocks)
    graphics = memory and ask(GPU_CLOCKS, pynvml.nvmlDeviceGetSupportedGraphicsClocks, max(memory))
    # Older GPUs report clocks too, but can't lock them.
    architecture = reported(pynvml.nvmlDeviceGetArchitecture, handle)
    architecture = architecture or pynvml.NVML_DEVICE_ARCH_AMPERE
    clocks = {
        name: (min(supported), max(supported))
        for name, supported, first in (
            (GPU_CLOCKS, graphics, pynvml.NVML_DEVICE_ARCH_VOLTA),
            (MEMORY_CLOCKS, memory, pynvml.NVML_DEVICE_ARCH_AMPERE),
        )
        if supported and architecture >= first
    }
    kinds = {GPU_CLOCKS: pynvml.NVML_CLOCK_GRAPHICS, MEMORY_CLOCKS: pynvml.NVML_CLOCK_MEM}
    runs = {name: reported(pynvml.nvmlDeviceGetClockInfo, handle, kinds[name]) for name in clocks}
    return SettingsTold(
        present=_known(values),
        power=(0, 0) if limits is None else (int(limits[0]), int(limits[1])),
        power_default=reported(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle) or 0,
        clocks=clocks,
        running={name: int(value) for name, value in runs.items() if value is not None},
        ecc_next=None if ecc is None else bool(ecc[1]),
        energy=reported(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        profiles=profiles.board if profiles else {},
        enforced=_known(enforced),
        failed=ask.failed,
    )


class _Reader:
    """Reads settings, and keeps the errors of those that the GPU has but that can't be read."""

    def __init__(self, handle: t.Any) -> None:
        self._handle = handle
        self.failed: t.Dict[str, str] = {}

    def __call__(self, name: str, ask: t.Callable[..., t.Any], *args: t.Any) -> t.Any:
        try:
            return or_none(MISSING, ask, self._handle, *args)
        except pynvml.NVMLError as error:
            if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                raise
            self.failed[name] = MESSAGES.get(error.value, f"NVML error {error.value}")
            return None

    def flag(self, name: str, ask: t.Callable[..., t.Any]) -> t.Optional[bool]:
        """Return a mode that is on or off, None if there is none."""
        value = self(name, ask)
        return None if value is None else bool(value)


def _known(values: t.Mapping[str, Value]) -> t.Dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}


@doing("reading the persistence mode of a GPU")
def persistent(handle: t.Any) -> t.Optional[bool]:
    """Return a GPU's persistence mode, which it reports even if it needs a reset."""
    mode = reported(pynvml.nvmlDeviceGetPersistenceMode, handle)
    return None if mode is None else bool(mode)


@doing("setting a GPU")
def set_to(handle: t.Any, name: str, value: Value) -> None:
    """Set one setting of a GPU; clocks to None for no lock.

    Raises:
        NvmlError: if the GPU does not take it.
    """
    if name == POWER_PROFILES:
        request_profiles(handle, t.cast(Profiles, value))
    elif isinstance(value, tuple):
        _LOCKS[name](handle, *value)
    elif value is None:
        _UNLOCKS[name](handle)
    else:
        _SETTERS[name](handle, COMPUTE_MODES[value] if isinstance(value, str) else int(value))


_SETTERS = {
    PERSISTENCE: asking("nvmlDeviceSetPersistenceMode"),
    POWER: asking("nvmlDeviceSetPowerManagementLimit"),
    ECC: asking("nvmlDeviceSetEccMode"),
    COMPUTE: asking("nvmlDeviceSetComputeMode"),
    ACCOUNTING: asking("nvmlDeviceSetAccountingMode"),
}
_LOCKS = {
    GPU_CLOCKS: asking("nvmlDeviceSetGpuLockedClocks"),
    MEMORY_CLOCKS: asking("nvmlDeviceSetMemoryLockedClocks"),
}
_UNLOCKS = {
    GPU_CLOCKS: asking("nvmlDeviceResetGpuLockedClocks"),
    MEMORY_CLOCKS: asking("nvmlDeviceResetMemoryLockedClocks"),
}
