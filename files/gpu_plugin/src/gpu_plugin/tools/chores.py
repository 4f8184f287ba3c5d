# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is done beside serving: it fails alone, and what may hang does so in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import cut
from . import logs

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
        """Do the work. Returns its result, None where it failed."""
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


def errors(chores: Iterable[Chore[..., Any]]) -> dict[str, str | None]:
    """Return by name why chores failed the last time, None for those that did not."""
    return {one.name: one.error for one in chores if one.ran}


class Worker:
    """A thread that does one thing at a time, which must not raise. Nobody waits for it."""

    def __init__(self, name: str) -> None:
        self.busy = False
        self._work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, work: Callable[[], object]) -> bool:
        """Begin with this, unless what was begun before still goes on. Returns whether it did."""
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
