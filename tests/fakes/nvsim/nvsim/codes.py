# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVML's return codes that the simulation gives."""

from __future__ import annotations

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, TIMEOUT, FUNCTION_NOT_FOUND = 6, 7, 9, 10, 13
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, IN_USE = 15, 16, 18, 19
INSUFFICIENT_RESOURCES, ARGUMENT_VERSION_MISMATCH, UNKNOWN = 23, 25, 999


class NvError(Exception):
    """A call ends with this return code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
