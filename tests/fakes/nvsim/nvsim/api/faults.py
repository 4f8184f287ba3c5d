# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU tells of its faults, and its reset. The branches are those of NVML's change log."""

from __future__ import annotations

import ctypes
import uuid

import pynvml

from ..call import Call, api
from ..codes import ARGUMENT_VERSION_MISMATCH, NOT_SUPPORTED, NvError
from ..handles import GPU, decode
from ..state import Gpu
from .topology import links_of

RECOVERY = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
RESET, DRAIN_AND_RESET = pynvml.NVML_FI_DEV_RESET_STATUS, pynvml.NVML_FI_DEV_DRAIN_AND_RESET_STATUS
# The branch from which on the driver can ask for each recovery action.
RECOVERIES = {0: 565, 1: 565, 2: 565, 3: 565, 4: 570, 5: 595, 6: 615, 7: 615}
# Those before can ask for a reset, and for one after a drain: nvidia-smi reads that from 550 on, though the change log
# has its fields from 560 on.
RESET_STATUS, STATUSES = 550, {RESET: 1, DRAIN_AND_RESET: 4}
FABRIC_V3 = 580


def recovery_field(call: Call, gpu: Gpu, field: int) -> int | None:
    """Return what a field tells of what the driver asks for, None where it is no such field or not there."""
    branch, asks = call.engine.branch(), gpu.driver.recovery
    if field == RECOVERY and branch >= RECOVERIES[0]:
        return asks
    return int(asks == STATUSES[field]) if field in STATUSES and branch >= RESET_STATUS else None


def can_ask(branch: int, action: int) -> bool:
    """Return whether the driver of a branch can ask for a recovery action; one that nobody knows is of the future."""
    if branch >= RECOVERIES[0]:
        return branch >= RECOVERIES.get(action, 0)
    return action in (0, *STATUSES.values())


def _ampere(call: Call) -> Gpu:
    """Return the GPU of a call; those before Ampere retire pages, and tell nothing of this."""
    gpu = call.gpu(mig_too=False)
    call.need(1)
    if gpu.product.architecture < pynvml.NVML_DEVICE_ARCH_AMPERE:
        raise NvError(NOT_SUPPORTED)
    return gpu


@api("nvmlDeviceGetRemappedRows")
def remapped_rows(call: Call) -> None:
    gpu = _ampere(call)
    call.need(2, 3, 4)
    if gpu.driver.gis:
        raise NvError(NOT_SUPPORTED)
    told = (*gpu.board.rows, int(gpu.driver.row_pending), int(gpu.board.row_failure))
    for at, value in enumerate(told, start=1):
        call.put_number(at, value)


@api("nvmlDeviceGetRemappedRows_v2")
def remapped_rows_v2(call: Call) -> None:
    gpu = _ampere(call)
    if gpu.driver.gis:
        raise NvError(NOT_SUPPORTED)
    told = (gpu.board.rows[0], 0, gpu.board.rows[1], 0)
    flags = (int(gpu.driver.row_pending), int(gpu.board.row_failure))
    call.put_struct(1, pynvml.c_nvmlRemappedRowsInfo_v2_t(*told, *flags))


@api("nvmlDeviceGetSramEccErrorStatus")
def sram(call: Call) -> None:
    board = _ampere(call).board
    call.put_versioned(
        1,
        pynvml.c_nvmlEccSramErrorStatus_v1_t,
        1,
        aggregateUncSecDed=board.sram_errors,
        aggregateUncBucketSm=board.sram_errors,
        bThresholdExceeded=int(board.sram_exceeded),
    )


@api("nvmlDeviceGetRepairStatus")
def repair_status(call: Call) -> None:
    driver = _ampere(call).driver
    call.put_versioned(
        1,
        pynvml.c_nvmlRepairStatus_t,
        1,
        bChannelRepairPending=int(driver.channel_pending),
        bTpcRepairPending=int(driver.tpc_pending),
    )


@api("nvmlDeviceGetUnrepairableMemoryFlag_v1")
def unrepairable(call: Call) -> None:
    board = _ampere(call).board
    kind = pynvml.c_nvmlUnrepairableMemory_v1_t
    call.put_versioned(1, kind, 1, unrepairableMemory=int(board.unrepairable))


@api("nvmlDeviceGetGpuFabricInfoV")
def fabric_info(call: Call) -> None:
    """Tell of a GPU's fabric, with all fields but the summary of its health from branch 550 on."""
    gpu = call.gpu(mig_too=False)
    call.need(1)
    name, engine = gpu.board.uuid, call.engine
    if name not in engine.cliques and name not in engine.fabrics:
        raise NvError(NOT_SUPPORTED)
    cluster, clique = engine.cliques.get(name, (str(uuid.UUID(int=0)), 0))
    completed = (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, 0, 0)
    state, status, health = engine.fabrics.get(name, completed)
    version = call.number_in(1) >> 24
    if version == 3 and engine.branch() < FABRIC_V3:
        raise NvError(ARGUMENT_VERSION_MISMATCH)
    v3 = version == 3
    kind = pynvml.c_nvmlGpuFabricInfo_v3_t if v3 else pynvml.c_nvmlGpuFabricInfo_v2_t
    call.put_versioned(
        1,
        kind,
        3 if v3 else 2,
        clusterUuid=(ctypes.c_uint8 * 16)(*uuid.UUID(cluster).bytes),
        cliqueId=clique,
        state=state,
        status=status,
        healthMask=health,
    )


def _gpus(call: Call) -> list[Gpu]:
    """Return the GPUs of a call that has how many there are, and their handles."""
    data = call.inputs.get(1, b"")
    addresses = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return [call.engine.gpu(decode(one, GPU).gpu) for one in addresses]


def _together(call: Call, gpu: Gpu) -> set[str]:
    """Return the GPUs that have to be reset with one: those that NVLink connects with it."""
    engine, ampere = call.engine, pynvml.NVML_DEVICE_ARCH_AMPERE
    before = gpu.product.architecture < ampere
    if not engine.cables:
        stopped = gpu.product.architecture == ampere and not engine.fabric_manager
        switched = links_of(call, gpu, to_switches=True) > 0 and (before or stopped)
        return {one.board.uuid for one in engine.store.gpus()} if switched else {gpu.board.uuid}
    found = {gpu.board.uuid}
    while before and (more := {end for start, end in engine.cables if start in found} - found):
        found |= more
    return found


@api("nvsimResetGroup")
def reset_group(call: Call) -> None:
    """Tell nvidia-smi the PCI addresses of the GPUs that have to be reset with those that it names."""
    uuids = set().union(*(_together(call, gpu) for gpu in _gpus(call)))
    found = [gpu.board.pci for gpu in call.engine.store.gpus() if gpu.board.uuid in uuids]
    call.put(2, b"".join(f"0000{one}".upper().encode().ljust(20, b"\0") for one in found))
    call.put_number(3, len(found))


@api("nvsimResetGpus")
def reset(call: Call) -> None:
    """Reset GPUs as nvidia-smi does, by a private table."""
    call.root_only()
    gpus = _gpus(call)
    for gpu in gpus:
        if code := call.engine.refusal(gpu, call.pid):
            raise NvError(code)
    for gpu in gpus:
        call.engine.reset(gpu)
