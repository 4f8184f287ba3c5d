# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long a call of the simulated driver takes, by a clock that is moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from nvsim import control, engine
from nvsim.state import Store, new_board

from tests.fakes.clock import Clock

SLOW = "nvmlDeviceGetName"


class Lock:
    """The engine's lock; to wait for it moves the clock, and then something may happen."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def notify_all(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(engine, "time", found)
    return found


@pytest.fixture
def driver(clock: Clock, tmp_path: Path) -> engine.Engine:
    store = Store(tmp_path, tmp_path)
    store.board = new_board("a100-40", 2)
    store.load_driver("550.163.01", "open")
    found = engine.Engine(store, None)
    found.lock = Lock(clock)  # type: ignore[assignment]
    return found


def slow(driver: engine.Engine, **request: object) -> None:
    control.carry_out(driver, {"verb": "delay", "function": SLOW, **request}, 1)


def took(driver: engine.Engine, clock: Clock, function: str, gpu: int = 0) -> float:
    """Return how long a call takes."""
    begun = clock.now
    driver.linger(function, driver.gpu(gpu).board.uuid)
    return clock.now - begun


def test_a_function_takes_as_long_as_was_said(driver: engine.Engine, clock: Clock) -> None:
    slow(driver, ms=150)
    assert [took(driver, clock, SLOW, gpu) for gpu in (0, 1)] == [0.15, 0.15]
    assert took(driver, clock, "nvmlDeviceGetUUID") == 0


def test_a_delay_of_one_gpu_leaves_the_others_quick(driver: engine.Engine, clock: Clock) -> None:
    slow(driver, ms=150, gpu="1")
    slow(driver, ms=400, gpu="1", function=engine.EVERY)
    assert [took(driver, clock, SLOW, gpu) for gpu in (0, 1)] == [0, 0.4]


def test_a_call_goes_on_when_its_function_is_quick_again(
    driver: engine.Engine, clock: Clock
) -> None:
    control.carry_out(driver, {"verb": "hang", "function": SLOW}, 1)
    clock.at = lambda _clock: driver.delays.clear()
    assert took(driver, clock, SLOW) == engine.LONGEST_WAIT


def test_a_step_lets_one_call_go_on(driver: engine.Engine, clock: Clock) -> None:
    control.carry_out(driver, {"verb": "hang", "function": SLOW}, 1)
    control.carry_out(driver, {"verb": "step"}, 1)
    assert took(driver, clock, SLOW) == 0
    clock.at = lambda _clock: driver.delays.clear()
    assert took(driver, clock, SLOW) > 0
    assert not driver.waiting.total()
