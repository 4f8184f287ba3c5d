# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Work beside serving: it fails alone, hangs in a thread of its own, and is tried again in a while."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import select
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, ParamSpec, TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut
from . import logs

JITTER: Final = 0.25
DOUBLINGS: Final = 20
P = ParamSpec("P")
T = TypeVar("T")


class Chore(Generic[P, T]):
    """Work that is tried again and again. ``error`` is why it failed the last time, if it did.

    ``trouble`` is what is logged when it fails, once for each other error.
    """

    def __init__(self, name: str, trouble: str, work: Callable[P, T]) -> None:
        self.name = name
        self.ran = False
        self.error: str | None = None
        self._trouble = trouble
        self._work = work

    def run(self, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Do the work. Return its result, None if it failed."""
        error, result = None, None
        try:
            result = self._work(*args, **kwargs)
        except (NodeError, OSError) as failure:
            error = cut(str(failure))
        except Exception as failure:  # also what nobody foresaw must not end the service of GPUs
            error = cut(f"{type(failure).__name__}: {failure}")
        if error and error != self.error:
            logs.warning(self._trouble, chore=self.name, cause=error)
        elif self.error and not error:
            logs.info("works again", chore=self.name)
        self.error, self.ran = error, True
        return result


class Tries:
    """Tries in with statements, each of which fails alone: check() raises the first failure at the end."""

    def __init__(self) -> None:
        self._failed: list[NodeError | OSError] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, NodeError | OSError):
            return False
        self._failed.append(error)
        return True

    def check(self) -> None:
        """Raise the first failure, if there was any."""
        if self._failed:
            raise self._failed[0]


def errors(chores: Iterable[Chore[..., Any]]) -> dict[str, str | None]:
    """Return by name why chores failed the last time, None for those that did not."""
    return {chore.name: chore.error for chore in chores if chore.ran}


class Worker:
    """A thread that does one thing at a time, which must not raise. Nobody waits for it."""

    def __init__(self, name: str) -> None:
        self.busy = False
        self._work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, work: Callable[[], object]) -> bool:
        """Begin with this, unless the work before still goes on. Return whether it began."""
        if self.busy:
            return False
        self.busy = True
        if not self._thread.is_alive():
            self._thread.start()
        self._work.put(work)
        return True

    def _run(self) -> None:
        while True:
            self._work.get()()
            self.busy = False


class Backoff:
    """Pauses in seconds, each twice the one before, from ``first`` to ``longest``.

    Each is shorter by up to ``jitter`` of itself, so that nodes that failed together do not come back
    together; 0 is for what only this node is asked.
    """

    def __init__(self, first: float, longest: float, jitter: float = JITTER) -> None:
        self._first, self._longest, self._jitter = first, longest, jitter
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; return the pause until the next try."""
        pause: float = min(self._first * 2 ** min(self.failures, DOUBLINGS), self._longest)
        self.failures += 1
        return pause * random.uniform(1 - self._jitter, 1)

    def reset(self) -> None:
        """Begin with the first pause again: it worked."""
        self.failures = 0


class Wakeup:
    """An event that, unlike threading.Event, may be set by a signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def set(self) -> None:
        """End a wait, or the next one."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        """Wait until set() is called, at most for so long."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)
