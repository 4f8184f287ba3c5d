# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver, which may come up while this waits, and the word that a service has started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from .._shared._base.gpu import NvmlError
from .._shared._machine.nvml.real import Nvml, open_nvml
from ..tools import jobs, logs
from ..tools.start_timeout import READY

# They have GPUs open, or bring NVSwitches up, before a layout is made.
SERVICES: Final = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
POLL_SECONDS: Final = 0.5


@contextlib.contextmanager
def driver(wait: float, library: str = "") -> Iterator[Nvml]:
    """Open NVML as soon as NVIDIA's own services have begun, or failed to, and the driver is there."""
    jobs.settle(SERVICES, wait)
    deadline = time.monotonic() + wait
    with contextlib.ExitStack() as stack:
        while True:
            try:
                nvml = stack.enter_context(open_nvml(library))
                break
            except NvmlError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_SECONDS)
        yield nvml


def ended(status: int) -> int:
    """Tell that the service has started where its work is done. Returns the exit status."""
    if status == 0:
        logs.notify(READY)
    return status
