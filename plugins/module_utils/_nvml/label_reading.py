# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What only node labels tell of GPUs and MIG devices. To be used while NVML is open."""

from __future__ import annotations

import ctypes
import dataclasses
import typing as t
import uuid

from .._core.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, MigDevice
from .calls import INVALID_ARGUMENT, VERSION_MISMATCH, doing, or_none, pynvml

COMPLETED = 3
NOT_THERE = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, INVALID_ARGUMENT, VERSION_MISMATCH)


@dataclasses.dataclass(frozen=True)
class MigAttributes:
    """What a MIG device has of its GPU. Memory is in MiB; engines may be shared with siblings."""

    memory_mib: int
    multiprocessors: int
    gi_slices: int
    ci_slices: int
    copy_engines: int
    decoders: int
    encoders: int
    jpegs: int
    ofas: int


@doing("reading the attributes of a MIG device")
def attributes(device: MigDevice) -> MigAttributes:
    """Return what a MIG device has; NvmlError when it is gone."""
    found = pynvml.nvmlDeviceGetAttributes_v2(pynvml.nvmlDeviceGetHandleByUUID(device.uuid))
    return MigAttributes(
        memory_mib=found.memorySizeMB,
        multiprocessors=found.multiprocessorCount,
        gi_slices=found.gpuInstanceSliceCount,
        ci_slices=found.computeInstanceSliceCount,
        copy_engines=found.sharedCopyEngineCount,
        decoders=found.sharedDecoderCount,
        encoders=found.sharedEncoderCount,
        jpegs=found.sharedJpegCount,
        ofas=found.sharedOfaCount,
    )


@doing("reading a GPU's NVLink fabric")
def clique(gpu: Gpu) -> t.Optional[str]:
    """Return the fabric's cluster and clique, ``UUID.number``; None where it has not joined one."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    joined = or_none(NOT_THERE, pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
    if joined is None or info.state != COMPLETED or info.status != 0:
        return None
    return f"{uuid.UUID(bytes=bytes(info.clusterUuid))}.{info.cliqueId}"
