# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU tells of its own condition. To be used while NVML is open.

These are readings of counters that the driver keeps; none of them wakes the GPU or touches its memory.
"""

from __future__ import annotations

import typing as t

from .._core.gpu import GPU_IS_LOST, RESET_REQUIRED, Condition
from .calls import doing, pynvml

T = t.TypeVar("T")


@doing("reading the GPU's condition")
def condition(handle: t.Any) -> Condition:
    """Return the condition of the GPU with this handle. NvmlError: it is lost or wants a reset."""
    rows = _reported(pynvml.nvmlDeviceGetRemappedRows, handle)
    return Condition(
        rows_failed=None if rows is None else bool(rows[3]),
        rows_pending=None if rows is None else bool(rows[2]),
        uncorrected=_reported(
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        recovery=_reported(_recovery, handle),
    )


def _reported(ask: t.Callable[..., T], *args: t.Any) -> t.Optional[T]:
    """Return an answer, None where the GPU or the driver has none."""
    try:
        return ask(*args)
    except pynvml.NVMLError as error:
        if error.value in (GPU_IS_LOST, RESET_REQUIRED):
            raise
        return None


def _recovery(handle: t.Any) -> int:
    (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if field.nvmlReturn:
        raise pynvml.NVMLError(field.nvmlReturn)
    return int(field.value.uiVal)
