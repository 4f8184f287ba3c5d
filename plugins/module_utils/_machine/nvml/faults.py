# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The condition of GPUs, their faults, and how they can be reset. To be used while NVML is open.

Older bindings and drivers lack some functions; the branches are those of NVML's change log.
"""

from __future__ import annotations

import ctypes
import typing as t

from ..._base.gpu import NOT_SUPPORTED, Condition, Fabric, FaultSigns, Rows
from .calls import INVALID_ARGUMENT, ask_text, asking, doing, or_none, pynvml, reported

# Fields' numbers, which older bindings have no names for: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION of 565 and later, and
# NVML_FI_DEV_RESET_STATUS and _DRAIN_AND_RESET_STATUS of the branches before, from 550 on.
RECOVERY, RESET, DRAIN_AND_RESET = 230, 226, 227
ASKS_RESET, ASKS_DRAIN_AND_RESET = 1, 4  # nvmlDeviceGpuRecoveryAction_t
# Generations of NVLink by nvmlNvlinkVersion_t: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0, 6.0.
GENERATIONS: t.Mapping[int, int] = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}


@doing("looking a GPU up by its PCI address")
def at(address: str) -> t.Any:
    """Return NVML's handle of the GPU at a PCI address.

    Raises:
        NvmlError: if it is lost, or the driver has none there.
    """
    return pynvml.nvmlDeviceGetHandleByPciBusId(address.encode())


@doing("reading what names a GPU")
def named(handle: t.Any) -> t.Tuple[int, str]:
    """Return a GPU's index, and its board's serial number, empty if it has none."""
    index = int(pynvml.nvmlDeviceGetIndex(handle))
    return index, str(reported(ask_text, pynvml.nvmlDeviceGetSerial, handle) or "")


@doing("reading the GPU's condition")
def condition(handle: t.Any) -> Condition:
    """Return the condition of a GPU.

    Raises:
        NvmlError: if it is lost or needs a reset.
    """
    persistence = reported(pynvml.nvmlDeviceGetPersistenceMode, handle)
    return Condition(
        fault_signs(handle),
        uncorrected=reported(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        energy=reported(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        persistent=None if persistence is None else bool(persistence),
        compute_mode=reported(pynvml.nvmlDeviceGetComputeMode, handle),
    )


@doing("reading the signs of a GPU's faults")
def fault_signs(handle: t.Any) -> FaultSigns:
    """Return the signs of faults that a GPU reports.

    Raises:
        NvmlError: if it is lost or needs a reset.
    """
    # Not supported while there are MIG instances.
    rows = reported(asking("nvmlDeviceGetRemappedRows"), handle)
    sram = _filled("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t", handle)
    repair = reported(asking("nvmlDeviceGetRepairStatus"), handle)
    unrepairable = reported(asking("nvmlDeviceGetUnrepairableMemoryFlag_v1"), handle)
    fabric = _filled("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", handle)
    return FaultSigns(
        recovery=reported(_recovery, handle),
        rows=None if rows is None else Rows(rows[0], rows[1], bool(rows[2]), bool(rows[3])),
        sram_exceeded=None if sram is None else bool(sram.bThresholdExceeded),
        repair_pending=None if repair is None else any(repair),
        unrepairable=None if unrepairable is None else bool(unrepairable),
        fabric=None if fabric is None else Fabric(fabric.state, fabric.status, fabric.healthMask),
    )


@doing("reading a GPU's virtualization mode")
def virtualization(handle: t.Any) -> t.Optional[int]:
    """Return NVML's number of the mode: 0 none, 1 passthrough, 2 a vGPU guest, 3 and 4 a host; None if not known."""
    mode = reported(asking("nvmlDeviceGetVirtualizationMode"), handle)
    return None if mode is None else int(mode)


@doing("reading a GPU's generation of NVLink")
def nvlink(handle: t.Any) -> t.Optional[int]:
    """Return the generation of a GPU's first NVLink, 0 if it has none, None if it is not known."""
    codes = (NOT_SUPPORTED, INVALID_ARGUMENT)
    version = or_none(codes, pynvml.nvmlDeviceGetNvLinkVersion, handle, 0)
    return 0 if version is None else GENERATIONS.get(int(version))


def _filled(name: str, kind: str, handle: t.Any) -> t.Any:
    """Return a structure that the driver fills, None if the driver or the bindings lack it."""
    make = getattr(pynvml, kind, None)
    if make is None:
        return None
    structure = make()
    answer = reported(asking(name), handle, ctypes.byref(structure))
    return None if answer is None else structure


def _recovery(handle: t.Any) -> t.Optional[int]:
    """Return the recovery action that the driver asks for; branches before 565 know only two of them."""
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [RECOVERY, RESET, DRAIN_AND_RESET])
    action, reset, drain = (
        None if field.nvmlReturn else int(field.value.uiVal) for field in fields
    )
    if action is not None:
        return action
    if reset:
        return ASKS_RESET
    if drain:
        return ASKS_DRAIN_AND_RESET
    return None if reset is None else 0
