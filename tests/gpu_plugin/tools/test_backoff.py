# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pauses between tries."""

from __future__ import annotations

from gpu_plugin.tools.backoff import Backoff
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 10_000), st.floats(0, 0.5))
def test_pauses_grow_up_to_the_longest_and_begin_anew(failures: int, jitter: float) -> None:
    backoff = Backoff(0.1, 10, jitter)
    assert 0.1 * (1 - jitter) <= backoff.failed() <= 0.1
    backoff.failures = failures
    pause = min(0.1 * 2 ** min(failures, 20), 10)
    assert pause * (1 - jitter) <= backoff.failed() <= pause
    backoff.reset()
    assert backoff.failed() <= 0.1


def test_those_that_failed_together_do_not_come_back_together() -> None:
    assert len({Backoff(1, 60).failed() for _node in range(100)}) > 90
