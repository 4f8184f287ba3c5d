# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who may use a GPU at once, through NVML. A MIG device has no compute mode."""

from __future__ import annotations

from .calls import doing, pynvml

DEFAULT, EXCLUSIVE_PROCESS = 0, 3


@doing("reading the compute mode")
def get(uuid: str) -> int:
    """Return a GPU's compute mode."""
    return int(pynvml.nvmlDeviceGetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid)))


@doing("setting the compute mode")
def put(uuid: str, mode: int) -> None:
    """Set a GPU's compute mode."""
    pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid), mode)
