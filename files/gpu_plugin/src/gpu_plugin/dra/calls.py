# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet's calls: each claim gets an answer in time, whatever hangs behind it.

A claim is worked on in a thread of its own. What takes too long goes on, and the kubelet's next call finds it done
or waits for the same work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import Any, Final, NamedTuple, TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, printable
from ..tools import logs
from .prepare.apply import PreparedDevice, Preparer

PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
MOST: Final = 256  # that are worked on at a time
LONGEST: Final = 1024  # characters of an error, which becomes an Event of the pod
T = TypeVar("T")
Answers = dict[str, T | Exception]
Took = Callable[[str, float, bool], None]  # the call, its seconds, and whether it failed


class Claim(NamedTuple):
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


class Calls:
    """Any thread may call. ``took`` is told how long each claim took."""

    def __init__(self, preparer: Preparer, took: Took) -> None:
        self._preparer, self._took = preparer, took
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str], Future[Any]] = {}

    def prepare(
        self, claims: Sequence[Claim], seconds: float
    ) -> Answers[tuple[PreparedDevice, ...]]:
        """Return what containers get by the claims' UIDs, or why not; within so many seconds."""
        return self._all(PREPARE, claims, seconds, lambda one: self._preparer.prepare(*one))

    def unprepare(self, claims: Sequence[Claim], seconds: float) -> Answers[None]:
        """Give back what claims hold; return by their UIDs why that failed, if so."""
        return self._all(UNPREPARE, claims, seconds, lambda one: self._preparer.unprepare(one.uid))

    def _all(
        self, call: str, claims: Sequence[Claim], seconds: float, work: Callable[[Claim], T]
    ) -> Answers[T]:
        deadline = time.monotonic() + seconds
        begun = {one.uid: self._begin(call, one, work) for one in claims}
        answers: Answers[T] = {}
        for uid, found in begun.items():
            answers[uid] = _answer(found, deadline)
        return answers

    def _begin(self, call: str, claim: Claim, work: Callable[[Claim], T]) -> Future[T]:
        """Return the work on a claim: that which is under way, or else one that begins."""
        key = (call, claim.uid)
        with self._lock:
            if found := self._under_way.get(key):
                return found
            future: Future[T] = Future()
            if len(self._under_way) >= MOST:
                future.set_exception(
                    NodeError(f"{MOST} claims are worked on, and no more at a time")
                )
                return future
            self._under_way[key] = future
        threading.Thread(
            target=self._work, args=(key, claim, work, future), name="claim", daemon=True
        ).start()
        return future

    def _work(
        self, key: tuple[str, str], claim: Claim, work: Callable[[Claim], T], future: Future[T]
    ) -> None:
        begun = time.perf_counter()
        try:
            answer, error = work(claim), None
        except Exception as failure:  # also what nobody foresaw is an answer to the kubelet
            answer, error = None, _foreseen(failure)
            where = f"{claim.namespace}/{claim.name}"
            logs.warning(f"{key[0]} failed", claim=where, uid=claim.uid, cause=error)
        self._took(key[0], time.perf_counter() - begun, error is not None)
        with self._lock:
            del self._under_way[key]
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)  # type: ignore[arg-type]


def _answer(work: Future[Any], deadline: float) -> Any:
    try:
        return work.result(max(deadline - time.monotonic(), 0.0))
    except TooLate:
        return NodeError("it takes longer than the kubelet waits", hint="none: it goes on")
    except Exception as error:
        return error


def _foreseen(failure: Exception) -> NodeError:
    text = (
        str(failure) if isinstance(failure, NodeError) else f"{type(failure).__name__}: {failure}"
    )
    return NodeError(cut(printable(text), LONGEST))
