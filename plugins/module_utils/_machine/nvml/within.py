# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Questions to a driver that may never answer, in threads that are waited for only so long."""

from __future__ import annotations

import functools
import queue
import threading
import time
import typing as t
from concurrent.futures import Future

from ..._base.gpu import TIMEOUT, NvmlError

LATE = 10.0  # seconds to wait for NVML if nothing else can be done
T = t.TypeVar("T")


def within(seconds: float, task: str, ask: t.Callable[[], T]) -> T:
    """Return the answer of NVML.

    Raises:
        NvmlError: if NVML does not answer in time, or with an error.
    """
    return all_within(seconds, task, {task: ask})[task].result()


def all_within(
    seconds: float, task: str, asks: t.Mapping[str, t.Callable[[], T]]
) -> t.Dict[str, Future[T]]:
    """Ask all at once, and return the outcome of each by its name; that of late ones is an NvmlError."""
    answers: queue.SimpleQueue[t.Tuple[str, Future[T]]] = queue.SimpleQueue()

    def work(name: str) -> None:
        answers.put((name, outcome(asks[name])))

    for name in asks:
        begin(functools.partial(work, name))
    futures: t.Dict[str, Future[T]] = {}
    deadline = time.monotonic() + seconds
    while len(futures) < len(asks):
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        futures[name] = answer
    late: Future[T] = Future()
    late.set_exception(NvmlError(TIMEOUT, task))
    return {name: futures.get(name, late) for name in asks}


def begin(work: t.Callable[[], None]) -> None:
    """Start work in a daemon thread, which keeps no process from its end."""
    threading.Thread(target=work, name="nvml of a gpu", daemon=True).start()


def outcome(ask: t.Callable[[], T]) -> Future[T]:
    """Ask, and return a future with the answer or the error, for any thread."""
    result: Future[T] = Future()
    try:
        result.set_result(ask())
    except Exception as error:
        result.set_exception(error)
    return result
