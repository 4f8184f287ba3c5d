# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A server of reviews whose deadlines end nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_cluster.webhook import limits as bounds

from tests.fakes.kubernetes.webhook_serving import Running
from tests.support.waiting import LIMIT


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    for deadline in ("FIRST", "DEADLINE"):
        monkeypatch.setattr(bounds, deadline, LIMIT)
    made = Running()
    yield made
    made.stop()
