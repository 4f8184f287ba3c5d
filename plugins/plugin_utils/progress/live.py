# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the nodes are doing now: lines that a thread keeps at the end of a terminal, or that it tells a log."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import shutil
import sys
import threading
import time
import typing as t

from .text import Names, cells, fitted, shortened, span

TICK = 0.5  # seconds
SOON = 1.0  # seconds after which a task is worth a line


@dataclasses.dataclass
class Work:
    """A task that a node has begun, by the clock that the display has."""

    task: str
    begun: float
    note: str = ""
    asks: bool = False  # it asks the user, who would be overwritten
    logged: float = 0.0  # when a line of a log was last written


Working = t.Mapping[str, Work]


def rows(working: Working, names: Names, moment: float, size: t.Tuple[int, int]) -> t.List[str]:
    """Return a line for each node, none longer or more than ``size`` (columns, lines) lets be."""
    late = [(host, work) for host, work in working.items() if moment - work.begun >= SOON]
    if any(work.asks for work in working.values()):
        return []
    columns, most = size
    shown = late if len(late) <= most else late[: max(most - 1, 0)]
    lines = [_row(host, work, names, moment, columns) for host, work in shown]
    if len(shown) < len(late) and most > 0:
        lines.append(f"  . and {len(late) - len(shown)} more nodes")
    return [fitted(line, columns) for line in lines]


def _row(host: str, work: Work, names: Names, moment: float, columns: int) -> str:
    start = f"  . {span(moment - work.begun):>9}  {names.column(host)}  "
    return start + fitted(work.task, columns - cells(start + work.note)) + work.note


def heartbeats(working: Working, moment: float, interval: float) -> t.List[str]:
    """Return a line for each task that some node has run for ``interval`` seconds since it was last told of."""
    groups: t.Dict[str, t.Dict[str, Work]] = {}
    for host, work in working.items():
        groups.setdefault(f"{work.task}{work.note}", {})[host] = work
    return [
        _beat(task, works, moment)
        for task, works in groups.items()
        if _due(works, moment, interval)
    ]


def _due(works: Working, moment: float, interval: float) -> bool:
    return any(moment - max(work.begun, work.logged) >= interval for work in works.values())


def _beat(task: str, works: Working, moment: float) -> str:
    for work in works.values():
        work.logged = moment
    longest = span(moment - min(work.begun for work in works.values()))
    return f"  . {longest:>9}  {shortened(', '.join(works))}  {task}: still running"


def width() -> int:
    """Return the terminal's columns; 0 where there is no terminal and none are asked for."""
    return shutil.get_terminal_size((0, 0)).columns


def is_live() -> bool:
    """Return whether lines can be taken back: on a terminal that can move its cursor, and not of a CI job."""
    terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    return terminal and os.environ.get("CI", "").lower() in ("", "0", "false")


class Live:
    """What the nodes are doing.

    Everything happens under the lock of Ansible's display, which Ansible holds as well while it
    forks its workers: no worker begins with a lock that is held by a thread it does not have.
    """

    def __init__(self, display: t.Any, names: Names) -> None:
        """It does nothing until it is started."""
        self._display, self._names = display, names
        self._lock = getattr(display, "_lock", None) or threading.RLock()
        self._most, self._interval = 0, 0.0
        self._working: t.Dict[str, Work] = {}
        self._drawn: t.List[str] = []
        self._at_line_start = True
        self._ended: t.Optional[threading.Event] = None
        self._process = os.getpid()

    def start(self, most: int, interval: float) -> None:
        """Show ``most`` lines on a terminal, none with 0, or tell a log each ``interval`` seconds, never with 0."""
        self._most = max(most, 0) if is_live() else 0
        self._interval = 0.0 if self._most else interval
        if self._ended or not (self._most or self._interval > 0):
            return
        self._ended = threading.Event()
        self._original = self._display.display
        self._display.display = self._around(self._original)
        self._thread = threading.Thread(target=self._run, args=(self._ended,), daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Take the lines away and end the thread."""
        if self._ended is None or os.getpid() != self._process:
            return
        self._ended.set()
        with self._lock:
            self._erase()
            self._working.clear()
            self._display.display = self._original
        self._thread.join(timeout=5)
        self._ended = None
        atexit.unregister(self.stop)

    def begin(self, host: str, task: str, asks: bool = False) -> None:
        """A node begins a task."""
        with self._lock:
            self._working[host] = Work(task, time.monotonic(), asks=asks)

    def note(self, host: str, note: str) -> None:
        """Something is to be said of the task that a node has begun."""
        with self._lock:
            if host in self._working:
                self._working[host].note = note

    @contextlib.contextmanager
    def ending(self, host: str) -> t.Iterator[None]:
        """A node has ended its task, and what came of it is shown at once."""
        with self._lock:
            self._working.pop(host, None)
            with self._aside():
                yield

    def _run(self, ended: threading.Event) -> None:
        try:
            while not ended.wait(TICK):
                with self._lock:
                    if not ended.is_set():
                        self._tick()
        except (OSError, ValueError):  # the terminal is gone
            self._most = 0

    def _tick(self) -> None:
        if self._most:
            self._erase()
            self._draw()
        else:
            for line in heartbeats(self._working, time.monotonic(), self._interval):
                self._original(line)
                sys.stdout.flush()

    def _around(self, display: t.Callable[..., None]) -> t.Callable[..., None]:
        """Return Ansible's way to the terminal with our lines out of the way."""

        @functools.wraps(display)
        def shown(msg: str, *args: t.Any, **options: t.Any) -> None:
            if os.getpid() != self._process:  # a worker, whose lines come to us by a queue
                display(msg, *args, **options)
                return
            with self._lock, self._aside():
                display(msg, *args, **options)
                self._at_line_start = options.get("newline", True) or msg.endswith("\n")

        return shown

    @contextlib.contextmanager
    def _aside(self) -> t.Iterator[None]:
        """Take the lines away for as long as something else is written."""
        had = bool(self._drawn)
        self._erase()
        yield
        if had:
            self._draw()

    def _draw(self) -> None:
        columns, lines = shutil.get_terminal_size()
        size = (columns - 1, min(self._most, lines - 1))
        self._drawn = rows(self._working, self._names, time.monotonic(), size)
        if self._drawn and self._at_line_start:
            self._write("\n".join(self._drawn))
        else:
            self._drawn = []

    def _erase(self) -> None:
        if self._drawn:
            columns = max(shutil.get_terminal_size().columns, 1)  # it may be narrower by now
            up = sum(max(1, -(-cells(line) // columns)) for line in self._drawn) - 1
            self._drawn = []
            self._write("\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
