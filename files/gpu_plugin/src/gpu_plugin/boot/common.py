# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the commands for boot have in common: patience with the driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from .._shared._core.gpu import NvmlError
from .._shared._nvml.api import Nvml
from .._shared._nvml.real import open_nvml

POLL_SECONDS: Final = 0.5


@contextlib.contextmanager
def driver(wait: float, library: str = "") -> Iterator[Nvml]:
    """Open NVML as soon as the driver is there."""
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
