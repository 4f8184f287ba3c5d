# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Waits for a kubelet to register the GPUs, where there has to be one."""

from __future__ import annotations

import time
import typing as t

from .. import registration
from ..plan import Observed


def wait(
    observe: t.Callable[[], Observed], await_news: t.Callable[[], None], timeout: float
) -> None:
    """Return once all resources are registered. NodeError: they are not after ``timeout`` s."""
    start = time.monotonic()
    while True:
        observed = observe()
        cause = registration.missing(observed.status, listens=observed.kubelet)
        if not cause:
            return
        if time.monotonic() - start >= timeout:
            raise registration.failure(cause, timeout)
        await_news()
