# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who is late with an answer, and for how long he counts as late."""

from __future__ import annotations

import threading

import pytest
from gpu_plugin.gpus import asking as module
from gpu_plugin.gpus.asking import EVERY, IN_TIME, Asking
from gpu_plugin.offer.devices import LATE, SLOW

from tests.support.waiting import LIMIT


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


def test_all_that_answer_are_asked_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", LIMIT)
    threads = set()

    def ask(key: int) -> int:
        threads.add(threading.get_ident())
        return key * 2

    assert Asking().each("", range(8), ask, ()) == {key: key * 2 for key in range(8)}
    assert len(threads) == 1


class Hanging:
    """GPUs some of which hang. Time passes when all have been asked and the others have answered."""

    def __init__(self, count: int, *hanging: int, seconds: float) -> None:
        self.keys, self.hanging, self.seconds = range(count), set(hanging), seconds
        self.now, self.asked, self.end = 0.0, list[int](), threading.Event()
        self.asking = Asking(self.clock)

    def clock(self) -> float:
        if self.hanging.issuperset(list(self.asking._since)) and set(self.asked).issuperset(
            self.keys
        ):
            self.now = self.seconds
        return self.now

    def ask(self, key: int) -> int:
        self.asked.append(key)
        if key in self.hanging:
            self.end.wait(LIMIT)
        return key

    def each(self, *known: int) -> dict[int, int]:
        return self.asking.each("look", self.keys, self.ask, known)

    def go_on(self) -> None:
        """Let all answer, and wait until they have."""
        self.end.set()
        for thread in threading.enumerate():
            if thread.name == "nvml of a gpu":
                thread.join(LIMIT)
        assert not self.asking.waits()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)


@pytest.mark.usefixtures("impatient")
def test_who_hangs_keeps_nobody_else_waiting() -> None:
    gpus = Hanging(5, 1, 3, seconds=LATE + 1)
    for _look in range(2):
        assert gpus.each() == {0: 0, 2: 2, 4: 4}
        assert gpus.asking.late() == {1, 3}
    gpus.go_on()
    assert gpus.asking.late() == {1, 3}
    for _look in range(1 + IN_TIME):  # the first takes the answers that came too late
        assert len(gpus.each()) == 5
    assert gpus.asking.late() == set()


@pytest.mark.usefixtures("impatient")
def test_all_that_hang_are_late_together() -> None:
    gpus = Hanging(16, *range(16), seconds=LATE + 1)
    assert gpus.each() == {}
    assert gpus.asking.late() == set(range(16))
    gpus.go_on()


@pytest.mark.usefixtures("impatient")
def test_who_is_known_is_not_waited_for_and_his_answer_counts_when_it_comes() -> None:
    gpus = Hanging(2, 0, seconds=SLOW / 2)
    for _look in range(2):
        assert gpus.each(0) == {1: 1}
        assert gpus.asking.late() == set()
    gpus.go_on()
    assert gpus.asking.each("links", [0], lambda _key: 7, {0}) == {0: 7}
    assert gpus.each(0) == {0: 0, 1: 1}
    assert gpus.asked == [0, 1, 1, 1]


def test_what_nobody_foresaw_is_raised_and_nobody_waits_for_it() -> None:
    asking = Asking()
    with pytest.raises(ZeroDivisionError):
        asking.each("", [0], lambda key: 1 // key, ())
    assert not asking.waits()
