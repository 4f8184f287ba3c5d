# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The clock of runtimes: when they were started, and when their files were edited."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import record

from tests.fakes.clock import Clock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock by which the record and the runtimes go."""
    clock = Clock(1000.0)
    monkeypatch.setattr(record, "time", clock)
    return clock
