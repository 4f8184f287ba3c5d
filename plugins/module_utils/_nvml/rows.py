# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU remembers of its memory's defects. To be used while NVML is open."""

from __future__ import annotations

from .api import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu
from .real import doing

try:
    import pynvml
except ImportError:  # open_nvml, which comes before anything here, says so
    pynvml = None


@doing("reading replaced memory rows")
def replacement_failed(gpu: Gpu) -> bool:
    """Tell whether a defective row could not be replaced, which the GPU remembers for good."""
    try:
        rows = pynvml.nvmlDeviceGetRemappedRows(pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid))
    except pynvml.NVMLError as error:
        if error.value in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            return False
        raise
    return bool(rows[3])
