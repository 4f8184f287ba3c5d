# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is done beside serving fails alone, and hangs alone."""

from __future__ import annotations

import threading

import pytest
from gpu_plugin.tools.chores import Backoff, Chore, Worker, errors
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import LIMIT


def test_an_error_is_kept_and_logged_once_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([OSError("full"), OSError("full"), OSError("gone"), 7, KeyError("x")])

    def work() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    chore = Chore("file", "the file can't be written", work)
    assert errors([chore]) == {}
    found = []
    for _time in range(5):
        found.append((chore.run(), chore.error))
    full, gone, odd = "full", "gone", "KeyError: 'x'"
    assert found == [(None, full), (None, full), (None, gone), (7, None), (None, odd)]
    logged = capsys.readouterr().err
    assert logged.count("the file can't be written") == 3
    assert logged.count("works again") == 1
    assert errors([chore]) == {"file": odd}


def test_a_worker_that_hangs_is_waited_for_and_given_nothing_else() -> None:
    worker, hangs, done = Worker("slow"), threading.Event(), threading.Semaphore(0)
    before = threading.active_count()
    assert worker.start(hangs.wait)
    for _time in range(100):
        assert not worker.start(done.release)
    assert threading.active_count() == before + 1
    hangs.set()
    while not worker.start(done.release):
        pass
    assert done.acquire(timeout=LIMIT)
    assert not done.acquire(blocking=False)


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
