# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Asking for GPUs when each answer may take long, or never come: who is late, and for how long he counts as late."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final, NoReturn, TypeVar

from .._shared._core.gpu import TIMEOUT, NvmlError
from ..offer.devices import LATE, SLOW

EVERY: Final = -1  # not one GPU: what is asked for concerns all
IN_TIME: Final = 3  # answers in a row that must come in time from who was late
PATIENCE: Final = 1.0  # seconds without an answer after which the other GPUs are asked beside it
T = TypeVar("T")


class Asking:
    """Knows what is being asked for since when. Keys are GPUs by their index, or EVERY.

    A GPU is late while an answer takes longer than ``slow`` seconds, and until IN_TIME of them in a row
    did not: one at the edge does not come and go with each.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, slow: float | None = None
    ) -> None:
        self._clock = clock
        self.slow = SLOW if slow is None else slow
        self.longest = self.slow * LATE / SLOW
        self._patience = min(PATIENCE, self.slow / 4)
        self._since: dict[int, float] = {}
        self._owed: dict[int, int] = {}
        self._kept: dict[tuple[str, int], Callable[[], Any]] = {}

    @contextlib.contextmanager
    def of(self, key: int) -> Iterator[None]:
        """Ask for something in a with statement."""
        begun = self._since[key] = self._clock()
        try:
            yield
        finally:
            if self._clock() - begun > self.slow:
                self._owed[key] = IN_TIME
            elif left := self._owed.pop(key, 1) - 1:
                self._owed[key] = left
            del self._since[key]

    def waits(self, *, besides: int | None = None) -> bool:
        """Tell whether an answer is waited for, in any thread."""
        return any(key != besides for key in list(self._since))

    def late(self) -> frozenset[int]:
        """Return who is late."""
        return frozenset(self._owed) | {key for key in list(self._since) if self._overdue(key)}

    def forget(self) -> None:
        """Forget who was late and what they answered, since keys mean others from now on."""
        self._owed.clear()
        self._kept.clear()

    def each(
        self, what: str, keys: Iterable[int], ask: Callable[[int], T], known: Container[int]
    ) -> dict[int, T]:
        """Ask for each and return the answers there are.

        One is asked after the other; where one takes long, those that are left are asked side by side.
        An answer that comes later is kept for the next call that asks the same, ``what``; until then no more
        is asked of that GPU. Who is ``known`` is not waited for long, others until they are late. What
        ``ask`` raises is raised here.
        """
        wanted = list(keys)
        todo = deque(
            key for key in wanted if key not in self._since and (what, key) not in self._kept
        )
        waited, news = set(todo), queue.SimpleQueue[None]()
        answers: dict[int, T] = {}

        def work() -> None:
            while todo:
                with contextlib.suppress(IndexError):  # another thread was quicker
                    key = todo.popleft()
                    self._kept[what, key] = self._answer(key, ask)
                    news.put(None)

        if todo:
            _begin(work)
        while True:
            for key in wanted:
                if answer := self._kept.pop((what, key), None):
                    answers[key] = answer()
                    waited.discard(key)
            if not any(key in todo or self._worth_it(key, known) for key in waited):
                return answers
            try:
                news.get(timeout=self._patience)
            except queue.Empty:
                for _one in list(todo):
                    _begin(work)

    def _worth_it(self, key: int, known: Container[int]) -> bool:
        """Tell whether an answer that was asked for just now is waited for."""
        waits = self._clock() - self._since.get(key, self._clock())
        return waits < (self._patience if key in known else self.longest)

    def _answer(self, key: int, ask: Callable[[int], T]) -> Callable[[], T]:
        def timed() -> T:
            with self.of(key):
                return ask(key)

        return outcome(timed)

    def _overdue(self, key: int) -> bool:
        return self._clock() - self._since.get(key, self._clock()) > self.slow


def within(seconds: float, what: str, ask: Callable[[], T]) -> T:
    """Return what NVML answers. NvmlError: the answer does not come in time, or is one."""
    answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    _begin(lambda: answers.put(outcome(ask)))
    try:
        return answers.get(timeout=seconds)()
    except queue.Empty:
        raise NvmlError(TIMEOUT, what) from None


def outcome(ask: Callable[[], T]) -> Callable[[], T]:
    """Ask, and return a function that returns the answer or raises the error, in whatever thread it is called."""
    try:
        answer = ask()
    except Exception as error:
        return _raising(error)
    return lambda: answer


def _raising(error: Exception) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="nvml of a gpu", daemon=True).start()
