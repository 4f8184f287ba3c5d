# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver as a whole, and finding devices."""

from __future__ import annotations

from ..call import Call, api
from ..codes import GPU_IS_LOST, INVALID_ARGUMENT, NOT_FOUND, NvError
from ..handles import GPU, MIG, Handle
from ..state import Gpu

CUDA_BY_BRANCH = {535: 12020, 550: 12040, 570: 12080, 580: 13000, 615: 13040}


@api("nvmlInitWithFlags")
def init(call: Call) -> None:
    """Succeed: the connection has already found the driver loaded and of the library's version."""


@api("nvmlSystemGetDriverVersion")
def driver_version(call: Call) -> None:
    call.put_text(0, 1, call.engine.store.driver.version)  # type: ignore[union-attr]


@api("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def cuda_version(call: Call) -> None:
    branch = int(call.engine.store.driver.version.split(".")[0])  # type: ignore[union-attr]
    call.put_number(
        0, max((v for b, v in CUDA_BY_BRANCH.items() if b <= branch), default=11080), "i"
    )


@api("nvmlSystemGetProcessName")
def process_name(call: Call) -> None:
    call.need(1)
    if not call.u32(2):
        raise NvError(INVALID_ARGUMENT)
    if (name := program(call.u32(0))) is None:
        raise NvError(NOT_FOUND)
    call.put(1, name[: call.u32(2) - 1] + b"\0")


def program(pid: int) -> bytes | None:
    """Return a process's name for itself, in its own bytes, whatever they are; None where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().split(b"\0")[0]
    except OSError:
        return None


@api("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def count(call: Call) -> None:
    call.put_number(0, len(call.gpus()))


@api("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def by_index(call: Call) -> None:
    gpus = call.gpus()
    if call.u32(0) >= len(gpus):
        raise NvError(INVALID_ARGUMENT)
    if gpus[call.u32(0)].driver.lost:
        raise NvError(GPU_IS_LOST)
    call.put_handle(1, Handle(GPU, gpus[call.u32(0)].index))


@api("nvmlDeviceGetHandleByUUID")
def by_uuid(call: Call) -> None:
    call.need(0, 1)
    wanted = call.text(0)
    for gpu in call.gpus():
        if gpu.board.uuid == wanted:
            return call.put_handle(1, Handle(GPU, gpu.index))
        for gi, ci in call.mig_devices(gpu):
            if gpu.mig_uuid(gi, ci) == wanted:
                return call.put_handle(1, Handle(MIG, gpu.index, gi.id, ci.id))
    raise NvError(NOT_FOUND)


@api("nvmlDeviceGetHandleBySerial")
def by_serial(call: Call) -> None:
    call.need(0, 1)
    for gpu in call.gpus():
        if gpu.board.serial == call.text(0):
            return call.put_handle(1, Handle(GPU, gpu.index))
    raise NvError(NOT_FOUND)


@api("nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2")
def by_pci(call: Call) -> None:
    call.need(0, 1)
    call.put_handle(1, Handle(GPU, at_address(call, 0).index))


def at_address(call: Call, at: int) -> Gpu:
    """Return the GPU at the PCI address of an argument, with or without its domain."""
    wanted = call.text(at).lower()
    domain, _colon, rest = wanted.partition(":")
    for gpu in call.gpus():
        if gpu.board.pci == f"{domain[-4:]:0>4}:{rest}" or gpu.board.pci == f"0000:{wanted}":
            return gpu
    raise NvError(NOT_FOUND)
