# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU tells of its firmware, and while it is under load. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from ..._base.gpu import Firmware, LoadReading
from .calls import ask_text, asking, doing, pynvml, reported

GPU_SENSOR = 0  # NVML_TEMPERATURE_GPU


@doing("reading the versions of a GPU's firmware")
def firmware(handle: t.Any) -> Firmware:
    """Return the firmware of the GPU with this handle."""
    return Firmware(
        *(
            reported(ask_text, asking(name), handle) or ""
            for name in (
                "nvmlDeviceGetVbiosVersion",
                "nvmlDeviceGetInforomImageVersion",
                "nvmlDeviceGetBoardPartNumber",
            )
        )
    )


@doing("reading a GPU's state under load")
def load_reading(handle: t.Any) -> LoadReading:
    """Return what the GPU with this handle tells at the moment.

    Raises:
        NvmlError: if the GPU is lost or needs a reset.
    """
    temperature = reported(pynvml.nvmlDeviceGetTemperature, handle, GPU_SENSOR)
    return LoadReading(
        # Bindings and drivers before 535 have it by this name alone, later ones by both.
        reasons=reported(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
        link=_link(
            handle,
            pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
            pynvml.nvmlDeviceGetCurrPcieLinkWidth,
        ),
        best_link=_link(
            handle, pynvml.nvmlDeviceGetMaxPcieLinkGeneration, pynvml.nvmlDeviceGetMaxPcieLinkWidth
        ),
        temperature=None if temperature is None else int(temperature),
    )


def _link(handle: t.Any, *asks: t.Callable[[t.Any], int]) -> t.Optional[t.Tuple[int, int]]:
    generation, width = (reported(ask, handle) for ask in asks)
    return None if generation is None or width is None else (int(generation), int(width))
