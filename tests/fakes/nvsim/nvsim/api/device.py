# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a device is, and its readings."""

from __future__ import annotations

import ctypes
import struct
import time

import pynvml

from ..call import Call, api
from ..catalog import AMPERE
from ..codes import ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, NvError
from ..state import Gpu
from .clocks import power_field
from .faults import recovery_field
from .topology import links_of

MIB = 1 << 20
RESERVED_MIB = 480
MILLIWATTS = 71000
NVLINK_COUNT, NVLINKS_TO_SWITCHES = 91, 147
# Where errors of memory are counted, as nvidia-smi shows them: in its own and in all others together.
PLACES = (pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM)
RESETLESS_MIG, MIG_QUERY_WITHOUT_MODE = 184, 199


@api("nvmlDeviceGetIndex")
def index(call: Call) -> None:
    if call.is_mig():
        gpu, gi, ci = call.mig()
        return call.put_number(1, call.mig_devices(gpu).index((gi, ci)))
    gpu = call.gpu(alive=False)
    return call.put_number(1, [one.index for one in call.gpus()].index(gpu.index))


@api("nvmlDeviceGetMinorNumber")
def minor(call: Call) -> None:
    call.put_number(1, call.gpu().board.minor)


@api("nvmlDeviceGetName")
def name(call: Call) -> None:
    text = call.gpu().product.name
    if call.is_mig():
        gpu, gi, ci = call.mig()
        text += f" MIG {mig_profile_name(gpu, gi.profile, ci.size)}"
    call.put_text(1, 2, text)


def mig_profile_name(gpu: Gpu, profile: int, slices: int) -> str:
    """Return the name of a MIG device, such as 1g.10gb or 1c.3g.40gb."""
    found = gpu.product.profile(profile)
    if found is None:
        raise NvError(INVALID_ARGUMENT)
    return found.name if slices == found.slices else f"{slices}c.{found.name}"


@api("nvmlDeviceGetUUID")
def uuid(call: Call) -> None:
    if call.is_mig():
        gpu, gi, ci = call.mig()
        return call.put_text(1, 2, gpu.mig_uuid(gi, ci))
    return call.put_text(1, 2, call.gpu(alive=False).board.uuid)


@api("nvmlDeviceGetSerial")
def serial(call: Call) -> None:
    call.put_text(1, 2, call.gpu(mig_too=False).board.serial)


@api("nvmlDeviceGetVbiosVersion")
def vbios(call: Call) -> None:
    call.gpu()
    call.put_text(1, 2, "96.00.74.00.01")


@api("nvmlDeviceGetBoardPartNumber")
def part_number(call: Call) -> None:
    call.gpu()
    call.put_text(1, 2, "695-2G520-0200-000")


# As nvidia-smi shows them of an H100: the objects OEM and ECC. There is none of power management.
INFOROM = {0: "2.1", 1: "7.16"}
OBJECTS = 4


@api("nvmlDeviceGetInforomImageVersion")
def inforom_image(call: Call) -> None:
    call.gpu()
    call.put_text(1, 2, "G520.0200.00.05")


@api("nvmlDeviceGetInforomVersion")
def inforom_version(call: Call) -> None:
    call.gpu()
    if call.u32(1) >= OBJECTS:
        raise NvError(INVALID_ARGUMENT)
    if call.u32(1) not in INFOROM:
        raise NvError(NOT_SUPPORTED)
    call.put_text(2, 3, INFOROM[call.u32(1)])


@api("nvmlDeviceGetBrand")
def brand(call: Call) -> None:
    call.gpu()
    call.put_number(1, 14)


@api("nvmlDeviceGetArchitecture")
def architecture(call: Call) -> None:
    call.put_number(1, call.gpu(in_order=False).product.architecture)


@api("nvmlDeviceGetCudaComputeCapability")
def compute_capability(call: Call) -> None:
    major, minor_ = call.gpu().product.compute_capability
    call.put_number(1, major, "i")
    call.put_number(2, minor_, "i")


@api("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo_v3")
def pci_info(call: Call) -> None:
    gpu = call.gpu(alive=False)
    domain, bus, rest = gpu.board.pci.split(":")
    call.put_struct(
        1,
        pynvml.nvmlPciInfo_t(
            busIdLegacy=gpu.board.pci.upper().encode(),
            domain=int(domain, 16),
            bus=int(bus, 16),
            device=int(rest.split(".")[0], 16),
            pciDeviceId=gpu.product.pci_device << 16 | 0x10DE,
            pciSubSystemId=gpu.product.pci_subsystem << 16 | 0x10DE,
            busId=f"0000{gpu.board.pci}".upper().encode(),
        ),
    )


def memory(call: Call) -> tuple[int, int]:
    """Return the total and the used memory of a device, in bytes."""
    gpu = call.gpu()
    if call.is_mig():
        gpu, gi, _ci = call.mig()
        profile = gpu.product.profile(gi.profile)
        total = profile.memory_mib * MIB if profile else 0
        held = call.engine.on(gpu, gi.id)
    else:
        total = gpu.product.memory_mib * MIB
        held = call.engine.on(gpu)
    return total, sum(one.memory for one in held)


@api("nvmlDeviceGetMemoryInfo")
def memory_info(call: Call) -> None:
    total, used = memory(call)
    used += 0 if call.is_mig() else RESERVED_MIB * MIB  # which the second version tells apart
    call.put_struct(1, pynvml.c_nvmlMemory_t(total=total, free=total - used, used=used))


@api("nvmlDeviceGetMemoryInfo_v2")
def memory_info_v2(call: Call) -> None:
    total, used = memory(call)
    reserved = RESERVED_MIB * MIB
    call.put_versioned(
        1,
        pynvml.c_nvmlMemory_v2_t,
        2,
        total=total,
        reserved=reserved,
        free=total - used - reserved,
        used=used,
    )


@api("nvmlDeviceGetBAR1MemoryInfo")
def bar1(call: Call) -> None:
    total = call.gpu().product.bar1_mib * MIB
    call.put_struct(1, pynvml.c_nvmlBAR1Memory_t(bar1Total=total, bar1Free=total, bar1Used=0))


@api("nvmlDeviceGetUtilizationRates")
def utilization(call: Call) -> None:
    if call.gpu().driver.mig_current:
        raise NvError(NOT_SUPPORTED)
    busy = 100 if call.engine.on(call.gpu()) else 0
    call.put_struct(1, pynvml.c_nvmlUtilization_t(gpu=busy, memory=busy // 2))


@api("nvmlDeviceGetTemperature")
def temperature(call: Call) -> None:
    call.gpu()
    call.below(1, 1)  # the GPU's own sensor is the only one
    call.put_number(2, 34)


@api("nvmlDeviceGetPowerUsage")
def power(call: Call) -> None:
    call.gpu()
    call.put_number(1, MILLIWATTS)


@api("nvmlDeviceGetTotalEnergyConsumption")
def energy(call: Call) -> None:
    """In millijoules, since the driver initialised the GPU; Volta and later."""
    gpu = call.gpu(mig_too=False)
    call.put_number(1, int((time.time() - gpu.driver.began) * MILLIWATTS), "Q")


@api("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState")
def performance_state(call: Call) -> None:
    call.gpu()
    call.put_number(1, 0)


@api("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons")
def throttle(call: Call) -> None:
    call.gpu()
    call.put_number(1, 0, "Q")


@api("nvmlDeviceGetTotalEccErrors")
def ecc_total(call: Call) -> None:
    gpu = call.gpu()
    call.below(2, pynvml.NVML_ECC_COUNTER_TYPE_COUNT)
    kind = call.below(1, pynvml.NVML_MEMORY_ERROR_TYPE_COUNT)
    counted = kind == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    call.put_number(3, gpu.driver.uncorrected if counted else 0, "Q")


@api("nvmlDeviceGetMemoryErrorCounter")
def ecc_counter(call: Call) -> None:
    product = call.gpu().product
    call.below(1, pynvml.NVML_MEMORY_ERROR_TYPE_COUNT)
    call.below(2, pynvml.NVML_ECC_COUNTER_TYPE_COUNT)
    place = call.below(3, pynvml.NVML_MEMORY_LOCATION_COUNT)
    call.need(4)
    if product.architecture >= AMPERE and place not in PLACES:
        raise NvError(NOT_SUPPORTED)
    call.put_number(4, 0, "Q")


@api("nvmlDeviceGetAttributes", "nvmlDeviceGetAttributes_v2")
def attributes(call: Call) -> None:
    if not call.is_mig():
        raise NvError(NOT_SUPPORTED)
    gpu, gi, ci = call.mig()
    profile = gpu.product.profile(gi.profile)
    if profile is None:
        raise NvError(INVALID_ARGUMENT)
    call.put_struct(
        1,
        pynvml.c_nvmlDeviceAttributes(
            multiprocessorCount=profile.multiprocessors * ci.size // profile.slices,
            sharedCopyEngineCount=profile.copy_engines,
            sharedDecoderCount=profile.decoders,
            sharedJpegCount=profile.jpegs,
            sharedOfaCount=profile.ofas,
            gpuInstanceSliceCount=profile.slices,
            computeInstanceSliceCount=ci.size,
            memorySizeMB=profile.memory_mib,
        ),
    )


@api("nvmlDeviceGetFieldValues")
def field_values(call: Call) -> None:
    gpu = call.gpu(mig_too=False)
    kind = pynvml.c_nvmlFieldValue_t
    size = ctypes.sizeof(kind)
    data = call.inputs.get(2, b"")
    answers = []
    for at in range(0, len(data), size):
        value = kind.from_buffer_copy(data[at : at + size])
        value.nvmlReturn, value.valueType = NOT_SUPPORTED, 1
        if value.fieldId in (RESETLESS_MIG, MIG_QUERY_WITHOUT_MODE) and gpu.product.mig_capable:
            value.nvmlReturn = SUCCESS
            resetless = not gpu.product.mig_mode_in_inforom
            value.value.uiVal = int(resetless if value.fieldId == RESETLESS_MIG else True)
        if value.fieldId in (NVLINK_COUNT, NVLINKS_TO_SWITCHES):
            links = links_of(call, gpu, to_switches=value.fieldId == NVLINKS_TO_SWITCHES)
            value.nvmlReturn, value.value.uiVal = SUCCESS, links
        asked = recovery_field(call, gpu, value.fieldId)
        if asked is None and not value.scopeId:
            asked = power_field(gpu, value.fieldId)
        if asked is not None:
            value.nvmlReturn, value.value.uiVal = SUCCESS, asked
        answers.append(bytes(value))
    call.put(2, b"".join(answers))


@api("nvmlDeviceGetNumaNodeId")
def numa_node(call: Call) -> None:
    """Refuse: no platform that is simulated has GPUs that are NUMA nodes themselves."""
    call.gpu()
    call.need(1)
    raise NvError(NOT_SUPPORTED)


@api("nvmlDeviceGetGspFirmwareMode")
def gsp(call: Call) -> None:
    call.gpu()
    call.put_number(1, 1)
    call.put_number(2, 1)


@api("nvmlDeviceGetVirtualizationMode")
def virtualization(call: Call) -> None:
    call.gpu()
    call.put_number(1, 2 if call.engine.vgpu else int(call.engine.passthrough))


@api("nvmlDeviceGetTemperatureV")
def temperature_versioned(call: Call) -> None:
    call.gpu()
    call.need(1)
    word, sensor = struct.unpack("<II", call.inputs.get(1, b"\0" * 8)[:8])
    if word & 0xFFFFFF != 12:
        raise NvError(ARGUMENT_VERSION_MISMATCH)
    if sensor:  # the GPU's own is the only one
        raise NvError(INVALID_ARGUMENT)
    call.put(1, struct.pack("<IIi", word, sensor, 34))
