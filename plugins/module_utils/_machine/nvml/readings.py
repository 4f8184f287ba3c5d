# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Readings of GPUs besides their MIG instances. To be used while NVML is open."""

from __future__ import annotations

import ctypes
import typing as t
from uuid import UUID

from ..._base.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, Links, MigDevice
from .calls import INVALID_ARGUMENT, VERSION_MISMATCH, ask_text, doing, or_none, pynvml, text

COMPLETED = 3  # the state of a fabric
NOT_THERE = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, INVALID_ARGUMENT, VERSION_MISMATCH)


@doing("reading the GPU's brand")
def brand(handle: t.Any) -> t.Optional[int]:
    """Return NVML's number of a GPU's brand, None if there is none."""
    number = or_none(NOT_THERE, pynvml.nvmlDeviceGetBrand, handle)
    return None if number is None else int(number)


@doing("reading the GPU's serial number")
def serial(handle: t.Any) -> str:
    """Return the serial number of a GPU's board, empty if it has none."""
    return or_none(NOT_THERE, ask_text, pynvml.nvmlDeviceGetSerial, handle) or ""


class MigAttributes(t.NamedTuple):
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
    """Return the attributes of a MIG device.

    Raises:
        NvmlError: if it is gone.
    """
    values = pynvml.nvmlDeviceGetAttributes_v2(pynvml.nvmlDeviceGetHandleByUUID(device.uuid))
    return MigAttributes(
        memory_mib=values.memorySizeMB,
        multiprocessors=values.multiprocessorCount,
        gi_slices=values.gpuInstanceSliceCount,
        ci_slices=values.computeInstanceSliceCount,
        copy_engines=values.sharedCopyEngineCount,
        decoders=values.sharedDecoderCount,
        encoders=values.sharedEncoderCount,
        jpegs=values.sharedJpegCount,
        ofas=values.sharedOfaCount,
    )


@doing("reading a GPU's NVLink fabric")
def clique(gpu: Gpu) -> t.Optional[str]:
    """Return the fabric's cluster and clique, ``UUID.number``; None if the GPU has joined none."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    joined = or_none(NOT_THERE, pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
    if joined is None or info.state != COMPLETED or info.status != 0:
        return None
    return f"{UUID(bytes=bytes(info.clusterUuid))}.{info.cliqueId}"


@doing("reading how near two GPUs are")
def level(first: Gpu, second: Gpu) -> int:
    """Return NVML's level of their nearest common ancestor: 0 is one board, 50 two processors."""
    handles = (pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid) for gpu in (first, second))
    return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(*handles))


@doing("reading a GPU's NVLinks")
def links(gpu: Gpu) -> Links:
    """Return a GPU's NVLinks."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    switch = 0
    peers: t.Dict[str, int] = {}
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, number):
                continue
            kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number)
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                switch += 1
            elif kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU:
                remote = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number)
                address = text(remote.busId).lower()[-12:]
                peers[address] = peers.get(address, 0) + 1
        except pynvml.NVMLError as error:
            if error.value not in NOT_THERE:
                raise
            break  # there are no more
    return Links(switch, peers)


@doing("looking for processes on a GPU")
def computing(uuid: str) -> t.FrozenSet[int]:
    """Return the processes that have a CUDA context on a GPU."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return frozenset(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))


@doing("reading the compute mode")
def compute_mode(uuid: str) -> int:
    """Return a GPU's compute mode."""
    return int(pynvml.nvmlDeviceGetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid)))


@doing("setting the compute mode")
def set_compute_mode(uuid: str, mode: int) -> None:
    """Set a GPU's compute mode."""
    pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid), mode)
