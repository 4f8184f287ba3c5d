# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way of a value through the product's files, as the interpreter calls their functions.

A file is on the walk if a function in it is handed the value, hands it on or makes it.

- A function is handed the value when an argument, ``self`` and what a closure holds among them, is the value or
  carries it, in any depth: as text or number, in a mapping, sequence or set, in a message of gRPC, or in a field of
  a data class of the product. Other objects are not looked into: a service that keeps the value is not the value.
- It hands the value on when it calls a function of the product that is handed it, as from a service's attribute.
- It makes the value when it returns or yields what carries it, such as what it has read.

The value is known by texts in which it is written, so that another copy of it, such as the profile in the GPU's own
list, is followed too. What only runs meanwhile is counted as running, and is not on the walk.

A function is one with a name: what its comprehensions and lambdas do it does itself. A call is one of a function that
is handed the value, each resumption of a generator too; a move is such a call from within another file's. Files are
the product's own: the daemon's links to the library are followed; tests, and what others have written, pass unseen.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.support.paths import CLUSTER_SOURCES, DAEMON_SOURCES, REPOSITORY

PRODUCT = (REPOSITORY / "plugins", DAEMON_SOURCES, CLUSTER_SOURCES)
NUMBERS = (int, float, Fraction)
SERIES = (list, tuple, set, frozenset, deque)
VARIABLE = (0x04, 0x08)  # CO_VARARGS and CO_VARKEYWORDS, which name one more argument each
MADE, HANDED_ON = "makes it", "hands it on"


class Stop(NamedTuple):
    """The function of a file that was called first of those with the value, and how it has that one."""

    number: int
    function: str
    how: str


@dataclass
class Walk:
    """What was seen: the stops by file, functions by file and name, and all files of which anything ran."""

    stops: dict[str, Stop] = field(default_factory=dict)
    functions: set[tuple[str, str]] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    calls: int = 0
    moves: int = 0


@dataclass
class _Running:
    frame: FrameType
    file: str
    number: int
    handed: bool = False

    @property
    def name(self) -> str:
        """The function that has a name, with its class."""
        return self.frame.f_code.co_qualname.split(".<")[0]


class Tracer:
    """Follows a value that is written as one of the ``marks``."""

    def __init__(self, *marks: str) -> None:
        self.walk = Walk()
        self._marks, text = marks, "|".join(map(re.escape, marks))
        self._text, self._bytes = re.compile(text), re.compile(text.encode())
        self._threads, self._numbers = threading.local(), itertools.count()
        self._on = False

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow it in a with statement, in this thread and in those that begin meanwhile."""
        self._on = True
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            self._on = False

    def _event(self, frame: FrameType, event: str, value: object) -> None:
        file = product_file(frame.f_code) if self._on else ""
        if not file or event not in ("call", "return"):
            return
        stack: list[_Running] = self._threads.__dict__.setdefault("stack", [])
        if event == "call":
            now = _Running(frame, file, next(self._numbers))
            self.walk.running.add(file)
            if handed := self._handed(frame):
                before = next((one for one in reversed(stack) if one.handed), now)
                self.walk.calls += 1
                self.walk.moves += before.file != file
                if stack and stack[-1].frame is frame.f_back:
                    self._stop(stack, HANDED_ON)
                now.handed = True
            stack.append(now)
            if handed:
                self._stop(stack, f"takes `{handed}`")
        elif stack and stack[-1].frame is frame:
            if not stack[-1].handed and self.carries(value):
                self._stop(stack, MADE)
            stack.pop()

    def _stop(self, stack: list[_Running], how: str) -> None:
        """Take note that the function that runs has the value."""
        file, name = stack[-1].file, stack[-1].name
        first = next((one for one in stack if (one.file, one.name) == (file, name)), stack[-1])
        stop = Stop(first.number, name, how)
        self.walk.functions.add((file, name))
        if stop.number < self.walk.stops.get(file, stop._replace(number=sys.maxsize)).number:
            self.walk.stops[file] = stop

    def _handed(self, frame: FrameType) -> str | None:
        """Return the name of the first argument that carries the value."""
        code, values = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        count += sum(bool(code.co_flags & one) for one in VARIABLE)
        names = (*code.co_varnames[:count], *code.co_freevars)
        return next((one for one in names if self.carries(values.get(one))), None)

    def carries(self, value: object) -> bool:
        """Return whether an object is the value, or carries it."""
        todo: list[Any] = [value]
        seen = dict[int, object]()  # which are kept, so that no other gets the same number
        while todo:
            one = todo.pop()
            if isinstance(one, str):
                if self._text.search(one):
                    return True
            elif isinstance(one, bytes):
                if self._bytes.search(one):
                    return True
            elif isinstance(one, NUMBERS):
                if str(one) in self._marks:
                    return True
            elif id(one) not in seen:
                seen[id(one)] = one
                todo += _parts(one)
        return False


def _parts(one: Any) -> tuple[object, ...]:
    """Return what is looked into of an object that carries others."""
    if isinstance(one, Mapping):
        return (*one, *one.values())
    if isinstance(one, SERIES):
        return (*one,)
    if hasattr(type(one), "DESCRIPTOR"):  # a message of gRPC
        return (str(one),)
    if is_dataclass(one) and not isinstance(one, type):
        return tuple(getattr(one, each.name, None) for each in fields(one))
    return ()


@functools.cache
def product_file(code: CodeType) -> str:
    """Return the file of a function as the repository has it, empty where it is not the product's."""
    path = Path(code.co_filename).resolve()
    generated = path.name.endswith("_pb2.py")
    if generated or code.co_name == "<module>" or not any(map(path.is_relative_to, PRODUCT)):
        return ""
    return str(path.relative_to(REPOSITORY))
