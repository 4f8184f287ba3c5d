# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""That growth which hides below the noise of a process's memory is seen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from tests.support.growth import Held, check, slope

PAGE = 4096


def series(leak: int, *, step: int = 0, calls: int = 3000, blocks: int = 9) -> Iterator[int]:
    """Memory in bytes that grows by ``leak`` a call, in pages and with noise of a few of them."""
    noise = random.Random(leak)
    for block in range(blocks):
        grown = leak * calls * block + (step if block > blocks // 2 else 0)
        yield 50_000_000 + grown // PAGE * PAGE + noise.randrange(8) * PAGE


@pytest.mark.parametrize("leak", [60, 100, 400, 4000])
def test_a_leak_is_measured(leak: int) -> None:
    assert slope(list(series(leak))) / 3000 == pytest.approx(leak, rel=0.3)
    with pytest.raises(AssertionError, match="bytes a piece"):
        check([Held(10, 5, one) for one in series(leak)], 3000, 32)


@pytest.mark.parametrize("step", [0, 500_000, 8_000_000])
def test_a_step_is_no_leak(step: int) -> None:
    assert check([Held(10, 5, one) for one in series(0, step=step)], 3000, 32) <= 32


@pytest.mark.parametrize("which", ["descriptors", "threads"])
def test_descriptors_and_threads_that_stay_open_are_seen(which: str) -> None:
    numbers = itertools.count(10)
    grown = [
        Held(**{"descriptors": 10, "threads": 5, "memory": one, which: next(numbers)})
        for one in series(0)
    ]
    with pytest.raises(AssertionError):
        check(grown, 3000, 32)
