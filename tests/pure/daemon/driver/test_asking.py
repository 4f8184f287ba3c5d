# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who is late with an answer, and for how long he counts as late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import pytest
from gpu_plugin._shared._machine.nvml.calls import HEARD
from gpu_plugin.driver import asking as module
from gpu_plugin.driver.asking import EVERY, IN_TIME, LONGEST, Asking
from gpu_plugin.model.inventory import HUNG, SLOW

from tests.support.waiting import LIMIT


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def look(asking: Asking, clock: Clock, key: int, *answers: float) -> None:
    """Ask for something, to which NVML answers in parts after so many seconds each."""
    with asking.of(key):
        for seconds in answers:
            clock.now += seconds
            HEARD.get()()


def test_who_takes_long_is_slow_and_who_does_not_answer_hangs() -> None:
    clock = Clock()
    asking = Asking(clock)
    with asking.of(2), asking.of(EVERY):
        for seconds, slow, hung in (
            (SLOW, set(), set()),
            (SLOW + 0.1, {2, EVERY}, set()),
            (HUNG, {2, EVERY}, set()),
            (HUNG + 0.1, {2, EVERY}, {2, EVERY}),
        ):
            clock.now = seconds
            assert (asking.slow(), asking.hung()) == (slow, hung)
        assert asking.waits(besides=EVERY)
    assert not asking.waits()
    asking.forget()
    assert (asking.slow(), asking.hung()) == (set(), set())


def test_a_driver_that_answers_each_call_late_is_slow_and_does_not_hang() -> None:
    clock = Clock()
    asking = Asking(clock)
    for _look in range(3):
        with asking.of(1):
            for _call in range(30):
                clock.now += 6
                assert asking.hung() == set()
                HEARD.get()()
        assert (asking.slow(), asking.hung()) == ({1}, set())
    look(asking, clock, 1, 6, HUNG + 1, 6)
    assert asking.hung() == {1}


@pytest.mark.parametrize(("limit", "late"), [(SLOW, Asking.slow), (HUNG, Asking.hung)])
def test_who_was_late_has_to_be_in_time_again_and_again(
    limit: float, late: Callable[[Asking], Collection[int]]
) -> None:
    clock = Clock()
    asking = Asking(clock)
    for seconds, expected in [(limit + 1, True), (1, True), (1, True), (limit + 1, True)]:
        look(asking, clock, 1, seconds)
        assert (1 in late(asking)) is expected
    for time_ in range(1, IN_TIME + 1):
        look(asking, clock, 1, limit)
        assert (1 in late(asking)) is (time_ < IN_TIME)


def test_a_gpu_at_the_edge_does_not_come_and_go() -> None:
    """Every other look is a little too long: it stays late from the first of them on."""
    clock = Clock()
    asking = Asking(clock)
    seen = []
    for number in range(40):
        look(asking, clock, 0, HUNG + (0.1 if number % 2 else -0.1))
        seen.append(0 in asking.hung())
    assert seen == [False] + [True] * 39


def test_a_user_may_wait_longer_or_for_ever() -> None:
    clock = Clock()
    asking = Asking(clock)
    with asking.of(0):
        clock.now = 100 * HUNG
        assert asking.hung() == {0}
        asking.wait(200 * HUNG)
        assert asking.hung() == set()
        clock.now = 201 * HUNG
        assert asking.hung() == {0}
        asking.wait(None)
        assert (asking.slow(), asking.hung()) == ({0}, set())
    assert asking.longest == LONGEST


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
    gpus = Hanging(5, 1, 3, seconds=HUNG + 1)
    for _look in range(2):
        assert gpus.each() == {0: 0, 2: 2, 4: 4}
        assert gpus.asking.hung() == {1, 3}
    gpus.go_on()
    assert gpus.asking.hung() == {1, 3}
    for _look in range(1 + IN_TIME):  # the first takes the answers that came too late
        assert len(gpus.each()) == 5
    assert gpus.asking.hung() == set()


@pytest.mark.usefixtures("impatient")
def test_all_that_hang_are_late_together() -> None:
    gpus = Hanging(16, *range(16), seconds=HUNG + 1)
    assert gpus.each() == {}
    assert gpus.asking.hung() == set(range(16))
    gpus.go_on()


@pytest.mark.usefixtures("impatient")
def test_who_is_known_is_not_waited_for_and_his_answer_counts_when_it_comes() -> None:
    gpus = Hanging(2, 0, seconds=SLOW / 2)
    for _look in range(2):
        assert gpus.each(0) == {1: 1}
        assert gpus.asking.hung() == set()
    gpus.go_on()
    assert gpus.asking.each("links", [0], lambda _key: 7, {0}) == {0: 7}
    assert gpus.each(0) == {0: 0, 1: 1}
    assert gpus.asked == [0, 1, 1, 1]


def test_what_nobody_foresaw_is_raised_and_nobody_waits_for_it() -> None:
    asking = Asking()
    with pytest.raises(ZeroDivisionError):
        asking.each("", [0], lambda key: 1 // key, ())
    assert not asking.waits()
