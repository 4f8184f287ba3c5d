# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that hangs holds up nobody but who asks it."""

from __future__ import annotations

import threading
import time

from gpu_plugin.dra.enforcement.opinions import Opinions

from tests.support.waiting import eventually


def test_a_driver_that_hangs_is_not_waited_for_and_asked_once() -> None:
    asked, go_on = [], threading.Event()

    def ask(uuid: str) -> str:
        asked.append(uuid)
        go_on.wait(10)
        return f"{uuid} is old"

    found = Opinions("test", ask, 60)
    began = time.monotonic()
    for _again in range(100):
        assert found.last("a", "unknown") == "unknown"
    assert time.monotonic() - began < 1
    go_on.set()
    eventually(lambda: found.last("a", "unknown") == "a is old")
    assert asked == ["a"]
    assert found.now("a") == "a is old"
    assert asked == ["a"]


def test_what_was_said_is_asked_again_after_a_while() -> None:
    now, said = [0.0], ["old"]
    found = Opinions("test", lambda uuid: said[0], 30, lambda: now[0])
    assert found.now("a") == "old"
    said[0] = ""
    assert found.last("a", "") == "old"
    now[0] = 31.0
    found.last("a", "")
    eventually(lambda: found.last("a", "unknown") == "")
