# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process that labels a node beside an API server: what it costs, and what it does where that fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually

from labelling import LATE  # noqa: E402

if TYPE_CHECKING:
    from labelling import Start


def test_the_label_process_stays_small_through_thousands_of_events(labeller: Start) -> None:
    one = labeller(2)
    one.api.merge({"status": {"images": [{"names": ["x" * 64] * 4} for _each in range(200)]}})
    for _each in range(2):  # the first has what it loads compiled
        one.start("flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}")
        one.wait(gpu_count="2")
        started = one.processor_seconds()
        eventually(lambda: one.api.counted("WATCH"), LATE)
        if not _each:
            assert one.end() == 0
            one.api.requests.clear()
            one.api.set(nvidia_com__gpu_count=None)
    before = one.resident()
    for number in range(3000):
        one.api.merge({"status": {"phase": str(number)}})
        if number % 5 == 0:
            one.api.set(example_com__number=str(number))
        if number % 100 == 0:
            one.api.end()
        time.sleep(0.001)
    one.api.set(nvidia_com__gpu_count="7")
    one.wait(gpu_count="2")
    print(f"labels: {before:.1f} MiB, then {one.resident():.1f} MiB; {started:.2f} s to label")
    assert one.resident() < 60
    assert one.resident() - before < 2
    assert started < 0.8  # of a processor, with NVML and two looks at the GPUs
