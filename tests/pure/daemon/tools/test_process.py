# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The loop of all services: what systemd is told and when, what signals do, and in what order all ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_plugin.tools import process
from gpu_plugin.tools.files import StateFile
from gpu_plugin.tools.process import Process

from tests.fakes.clock import Clock

FEED = 5.0


class Service(Process):
    """Notes what happens; a test says what happens in a round, by its number, the last of which ends it."""

    def __init__(self, folder: Path, clock: Clock, *rounds: Callable[[Service], object]) -> None:
        super().__init__(StateFile(folder / "status.json"), 0.5, FEED)
        self.clock, self.rounds = clock, iter((*rounds, lambda one: one.stop()))
        self.happened: list[str] = []
        self.exit = 0

    def stop(self) -> None:
        self.stopping = True

    def begin(self) -> int:
        self.happened.append("begin")
        return self.exit

    def pause(self) -> bool:
        """Let the tick pass without waiting for it."""
        self.clock.now += 1
        return not self.stopping

    def round(self) -> None:
        self.happened.append("reload" if self.reloading() else "round")
        next(self.rounds)(self)

    def close(self) -> None:
        self.happened.append("close")

    def says(self, text: str) -> None:
        self.report({"state": text}, text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(now=100.0)
    monkeypatch.setattr(process, "time", clock)
    return clock


@pytest.fixture
def signals() -> Iterator[None]:
    """Leave the test's own handlers as they were."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    before = {one: signal.getsignal(one) for one in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, signals: None) -> list[tuple[str, ...]]:
    """Return what systemd is told, each time."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(process, "notify", lambda *lines: found.append(lines))
    return found


def test_systemd_is_told_of_the_start_each_change_and_the_end(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    says = [lambda one, text=text: one.says(text) for text in ("a", "a", "b")]
    service = Service(tmp_path, clock, *says)
    assert service.run() == 0
    assert service.happened == ["begin", *["round"] * 4, "close"]
    fed = ("WATCHDOG=1", "STATUS=a")
    assert told == [("READY=1",), fed, ("STATUS=b",), ("STOPPING=1",)]


def test_the_watchdog_is_fed_while_the_loop_goes_round_and_the_state_is_still_true(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path, clock, *[lambda one: one.says("a")] * 11)
    touched: list[float] = []
    monkeypatch.setattr(service.status, "still_true", lambda: touched.append(clock.now))
    service.run()
    assert touched == [101.0, 101.0 + FEED, 101.0 + 2 * FEED]
    assert sum("WATCHDOG=1" in lines for lines in told) == 3
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "a"


def test_a_reload_is_told_of_until_its_round_is_over(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    def ask(one: Service) -> None:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)  # two before a round are one
        one.says("a")

    service = Service(tmp_path, clock, ask, *[lambda one: one.says("a")] * 2)
    service.run()
    assert service.happened == ["begin", "round", "reload", "round", "round", "close"]
    assert told[2:] == [("RELOADING=1", "MONOTONIC_USEC=102000000"), ("READY=1",), ("STOPPING=1",)]


def test_a_signal_ends_it_after_the_round_that_goes_on(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        service = Service(tmp_path, clock, lambda _one, number=number: signal.raise_signal(number))
        assert service.run() == 0
        assert service.happened == ["begin", "round", "close"]
        assert told[-1] == ("STOPPING=1",)


def test_a_signal_that_only_some_services_take_is_known_to_them(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    class Leaving(Service):
        SIGNALS = (*Process.SIGNALS, signal.SIGUSR1)
        ENDS = (signal.SIGTERM,)

    def ask(_one: Service) -> None:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGINT)

    service = Leaving(tmp_path, clock, ask)
    service.run()
    assert service.happened == ["begin", "round", "round", "close"]  # neither of the two ends it
    assert service.signals == {signal.SIGUSR1, signal.SIGINT}


def test_what_a_start_refuses_is_its_exit_status(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    service = Service(tmp_path, clock)
    service.exit = 3
    assert service.run() == 3
    assert (service.happened, told) == (["begin", "close"], [])


def test_systemd_sees_no_end_where_another_process_takes_the_place(
    tmp_path: Path, clock: Clock, told: list[tuple[str, ...]]
) -> None:
    """What has said that it ends is killed a while later, also where another program has taken its place."""

    def replaced(_one: Service) -> None:
        raise RuntimeError("another driver")

    service = Service(tmp_path, clock, replaced)
    with pytest.raises(RuntimeError, match="another driver"):
        service.run()
    assert service.happened == ["begin", "round", "close"]
    assert told == [("READY=1",)]


def test_a_signal_ends_the_wait_for_the_next_round(tmp_path: Path, signals: None) -> None:
    class Waiting(Process):
        def begin(self) -> int:
            signal.raise_signal(signal.SIGTERM)
            assert not self.pause()  # longer than any test may take
            return 0

        def round(self) -> None:
            raise AssertionError("it was to end")

        def close(self) -> None:
            pass

    assert Waiting(StateFile(tmp_path / "s"), 3600.0, FEED).run() == 0


def test_a_state_that_can_not_be_written_grows_old(tmp_path: Path, clock: Clock) -> None:
    service = Service(tmp_path, clock)
    path = tmp_path / "status.json"
    service.says("well")
    os.utime(path, (0, 0))
    clock.now += FEED
    service.says("well")
    assert path.stat().st_mtime > 0
    path.unlink()
    path.mkdir()  # so that it can't be replaced
    os.utime(path, (0, 0))
    clock.now += FEED
    service.says("ill")
    assert path.stat().st_mtime == 0
