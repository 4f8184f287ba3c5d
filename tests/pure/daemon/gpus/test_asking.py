# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who is late with an answer, and for how long he counts as late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from gpu_plugin.gpus import asking as module
from gpu_plugin.gpus.asking import EVERY, IN_TIME, Asking
from gpu_plugin.offer.devices import SLOW


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def answer(asking: Asking, clock: Clock, key: int, seconds: float) -> None:
    with asking.of(key):
        clock.now += seconds


def test_late_is_who_has_not_answered_for_so_long() -> None:
    clock = Clock()
    asking = Asking(clock)
    with asking.of(2), asking.of(EVERY):
        clock.now = SLOW
        assert asking.late() == set()
        clock.now = SLOW + 0.1
        assert asking.late() == {2, EVERY}
        assert asking.waits(besides=EVERY)
    assert not asking.waits()
    asking.forget()
    assert asking.late() == set()


def test_who_was_late_has_to_be_in_time_again_and_again() -> None:
    clock = Clock()
    asking = Asking(clock)
    for seconds, late in [(SLOW + 1, True), (1, True), (1, True), (SLOW + 1, True)]:
        answer(asking, clock, 1, seconds)
        assert (1 in asking.late()) is late
    for time_ in range(1, IN_TIME + 1):
        answer(asking, clock, 1, SLOW)
        assert (1 in asking.late()) is (time_ < IN_TIME)


def test_a_gpu_at_the_edge_does_not_come_and_go() -> None:
    """Every other look is a little too slow: it stays late from the first of them on."""
    clock = Clock()
    asking = Asking(clock)
    seen = []
    for number in range(40):
        answer(asking, clock, 0, SLOW + (0.1 if number % 2 else -0.1))
        seen.append(0 in asking.late())
    assert seen == [False] + [True] * 39


def test_all_that_answer_are_asked_in_one_thread() -> None:
    threads = set()

    def ask(key: int) -> int:
        threads.add(threading.get_ident())
        return key * 2

    assert Asking().each("", range(8), ask, ()) == {key: key * 2 for key in range(8)}
    assert len(threads) == 1


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    for bound in ("SLOW", "LATE"):
        monkeypatch.setattr(module, bound, 0.3)
    return 0.3


def test_who_hangs_keeps_nobody_else_waiting(soon: float) -> None:
    asking, end = Asking(), threading.Event()

    def ask(key: int) -> int:
        if key in (1, 3):
            end.wait(30)
        return key

    for _look in range(2):
        assert asking.each("", range(5), ask, ()) == {0: 0, 2: 2, 4: 4}
        assert asking.late() == {1, 3}
    end.set()
    eventually(lambda: not asking.waits())
    assert asking.late() == {1, 3}
    for _look in range(1 + IN_TIME):  # the first takes the answers that came too late
        assert len(asking.each("", range(5), ask, ())) == 5
    assert asking.late() == set()


def test_all_that_hang_are_late_together(soon: float) -> None:
    asking, end = Asking(), threading.Event()
    begun = time.monotonic()
    assert asking.each("", range(16), lambda _key: end.wait(30), ()) == {}
    assert asking.late() == set(range(16))
    assert time.monotonic() - begun < 16 * soon
    end.set()


def test_who_is_known_is_not_waited_for_and_his_answer_counts_when_it_comes(soon: float) -> None:
    asking, end = Asking(), threading.Event()
    asked = []

    def ask(key: int) -> int:
        asked.append(key)
        return key if key else int(end.wait(30))

    begun = time.monotonic()
    assert asking.each("look", range(2), ask, {0}) == {1: 1}
    assert time.monotonic() - begun < soon
    assert asking.late() == set()
    assert asking.each("look", range(2), ask, {0}) == {1: 1}
    end.set()
    eventually(lambda: not asking.waits())
    assert asking.each("links", [0], lambda _key: 7, {0}) == {0: 7}
    assert asking.each("look", range(2), ask, {0}) == {0: 1, 1: 1}
    assert asked == [0, 1, 1, 1]


def test_what_nobody_foresaw_is_raised_and_nobody_waits_for_it() -> None:
    asking = Asking()
    with pytest.raises(ZeroDivisionError):
        asking.each("", [0], lambda key: 1 // key, ())
    assert not asking.waits()


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)
