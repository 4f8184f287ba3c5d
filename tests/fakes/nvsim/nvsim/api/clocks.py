# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Power limits and clocks: what the board allows, and what root has set, until the driver is unloaded.

NVML has no question about locked clocks: only the clocks that are there show them.
"""

from __future__ import annotations

import struct

import pynvml

from ..call import Call, api
from ..catalog import AMPERE, STEP_MHZ, VOLTA
from ..codes import ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, NvError
from ..state import Gpu

MEMORY, VIDEO = pynvml.NVML_CLOCK_MEM, pynvml.NVML_CLOCK_VIDEO


@api("nvmlDeviceGetPowerManagementDefaultLimit")
def default_limit(call: Call) -> None:
    call.put_number(1, call.gpu().product.power_limit_watts * 1000)


@api("nvmlDeviceGetPowerManagementLimit")
def limit(call: Call) -> None:
    call.put_number(1, _limit(call.gpu()))


@api("nvmlDeviceGetEnforcedPowerLimit")
def enforced_limit(call: Call) -> None:
    call.put_number(1, _enforced(call.gpu()))


def _limit(gpu: Gpu) -> int:
    return gpu.driver.power_limit or gpu.product.power_limit_watts * 1000


def _enforced(gpu: Gpu) -> int:
    """Return the lowest of what software has set and a BMC."""
    return min(_limit(gpu), gpu.board.power_cap or _limit(gpu))


@api("nvmlDeviceGetPowerManagementLimitConstraints")
def limits(call: Call) -> None:
    for at, milliwatts in enumerate(_limits(call.gpu()), 1):
        call.put_number(at, milliwatts)


def power_field(gpu: Gpu, number: int) -> int | None:
    """Return what a field has of a GPU's power limits, in milliwatts; None where it is none of them."""
    least, most = _limits(gpu)
    return {
        pynvml.NVML_FI_DEV_POWER_MIN_LIMIT: least,
        pynvml.NVML_FI_DEV_POWER_MAX_LIMIT: most,
        pynvml.NVML_FI_DEV_POWER_DEFAULT_LIMIT: most,
        pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT: _enforced(gpu),
        pynvml.NVML_FI_DEV_POWER_REQUESTED_LIMIT: _limit(gpu),
    }.get(number)


@api("nvmlDeviceSetPowerManagementLimit")
def set_limit(call: Call) -> None:
    _set_limit(call, call.u32(1))


@api("nvmlDeviceSetPowerManagementLimit_v2")
def set_limit_of_scope(call: Call) -> None:
    """Of a GPU alone: no module with a limit of its own is simulated."""
    call.gpu(mig_too=False)
    call.need(1)
    if call.number_in(1) != pynvml.nvmlPowerValue_v2:
        raise NvError(ARGUMENT_VERSION_MISMATCH)
    _word, scope, milliwatts = struct.unpack("<IB3xI", call.inputs[1][:12])
    if scope != pynvml.NVML_POWER_SCOPE_GPU:
        raise NvError(NOT_SUPPORTED)
    _set_limit(call, milliwatts)


def _limits(gpu: Gpu) -> tuple[int, int]:
    return gpu.product.power_minimum_watts * 1000, gpu.product.power_limit_watts * 1000


def _set_limit(call: Call, milliwatts: int) -> None:
    gpu = call.gpu(mig_too=False)
    call.root_only()
    least, most = _limits(gpu)
    if not least <= milliwatts <= most:
        raise NvError(INVALID_ARGUMENT)
    gpu.driver.power_limit = milliwatts
    call.engine.changed()


@api("nvmlDeviceGetClockInfo")
def clock(call: Call) -> None:
    """Tell of a GPU that is busy: it is as quick as it may be. A clock that is none is one that it lacks."""
    call.gpu()
    call.need(2)
    if call.u32(1) >= pynvml.NVML_CLOCK_COUNT:
        raise NvError(NOT_SUPPORTED)
    _put_clock(call)


@api("nvmlDeviceGetApplicationsClock")
def applications_clock(call: Call) -> None:
    _refuse(call, VIDEO)
    _put_clock(call)


def _put_clock(call: Call) -> None:
    driver, most = call.gpu().driver, _most(call)
    lock = driver.memory_lock if call.u32(1) == MEMORY else driver.graphics_lock
    call.put_number(2, min(most, lock[1]) if lock else most)


@api("nvmlDeviceGetMaxClockInfo")
def most_clock(call: Call) -> None:
    call.gpu()
    call.put_number(2, _most(call))


@api("nvmlDeviceGetMaxCustomerBoostClock")
def boost_clock(call: Call) -> None:
    _refuse(call, MEMORY, VIDEO)
    call.put_number(2, _most(call))


def _refuse(call: Call, *kinds: int) -> None:
    """Refuse the clocks that have no such limit, as an H100 does."""
    call.gpu()
    call.need(2)
    if call.below(1, pynvml.NVML_CLOCK_COUNT) in kinds:
        raise NvError(NOT_SUPPORTED)


def _most(call: Call) -> int:
    product = call.gpu().product
    kind = call.below(1, pynvml.NVML_CLOCK_COUNT)
    own = {MEMORY: product.memory_mhz[-1], VIDEO: product.video_mhz}
    return own.get(kind) or product.graphics_mhz[1]


@api("nvmlDeviceGetSupportedMemoryClocks")
def memory_clocks(call: Call) -> None:
    _put_clocks(call, 1, call.gpu().product.memory_mhz)


@api("nvmlDeviceGetSupportedGraphicsClocks")
def graphics_clocks(call: Call) -> None:
    product = call.gpu().product
    call.need(2)
    if call.u32(1) not in product.memory_mhz:
        raise NvError(NOT_FOUND)
    least, most = product.graphics_mhz
    _put_clocks(call, 2, range(least, most + 1, STEP_MHZ))


def _put_clocks(call: Call, at: int, megahertz: list[int] | range) -> None:
    call.put_list(at, at + 1, [struct.pack("<I", one) for one in sorted(megahertz, reverse=True)])


@api("nvmlDeviceSetGpuLockedClocks")
def lock_graphics(call: Call) -> None:
    """Lock the clocks of the GPU; one that is beyond what there is counts as the nearest one."""
    _lock(call, "graphics_lock", VOLTA, _asked(call))


@api("nvmlDeviceResetGpuLockedClocks")
def unlock_graphics(call: Call) -> None:
    _lock(call, "graphics_lock", VOLTA, None)


@api("nvmlDeviceSetMemoryLockedClocks")
def lock_memory(call: Call) -> None:
    _lock(call, "memory_lock", AMPERE, _asked(call))


@api("nvmlDeviceResetMemoryLockedClocks")
def unlock_memory(call: Call) -> None:
    _lock(call, "memory_lock", AMPERE, None)


def _asked(call: Call) -> tuple[int, int]:
    least, most = call.u32(1), call.u32(2)
    if least > most:
        raise NvError(INVALID_ARGUMENT)
    return least, most


def _lock(call: Call, name: str, since: int, wanted: tuple[int, int] | None) -> None:
    gpu = call.gpu(mig_too=False)
    call.root_only()
    if gpu.product.architecture < since:
        raise NvError(NOT_SUPPORTED)
    setattr(gpu.driver, name, wanted)
    call.engine.changed()
