# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that hangs holds up nobody but who asks it."""

from __future__ import annotations

import threading

from gpu_plugin.dra.enforcement.queries import Queries

from tests.support.waiting import LIMIT


class Clock:
    """Tells when the thread that asks the driver has looked at it: before it asks, and when it keeps the answer."""

    now = 0.0

    def __init__(self) -> None:
        self.looks = threading.Semaphore(0)

    def __call__(self) -> float:
        if threading.current_thread() is not threading.main_thread():
            self.looks.release()
        return self.now

    def wait_for_answer(self) -> None:
        for _look in range(2):
            assert self.looks.acquire(timeout=LIMIT)


def test_a_driver_that_hangs_is_not_waited_for_and_asked_once() -> None:
    asked, go_on, clock = [], threading.Event(), Clock()

    def ask(uuid: str) -> str:
        asked.append(uuid)
        go_on.wait(LIMIT)
        return f"{uuid} is old"

    found = Queries("test", ask, 60, clock)
    for _again in range(100):
        assert found.last_answer("a", "unknown") == "unknown"
    go_on.set()
    clock.wait_for_answer()
    assert found.last_answer("a", "unknown") == "a is old"
    assert found.answer("a") == "a is old"
    assert asked == ["a"]


def test_what_was_said_is_asked_again_after_a_while() -> None:
    said, clock = ["old"], Clock()
    found = Queries("test", lambda _uuid: said[0], 30, clock)
    assert found.answer("a") == "old"
    said[0] = ""
    assert found.last_answer("a", "") == "old"
    clock.now = 31.0
    found.last_answer("a", "")
    clock.wait_for_answer()
    assert found.last_answer("a", "unknown") == ""
