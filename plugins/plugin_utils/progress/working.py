# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the nodes are doing now, as lines for a terminal or a log."""

from __future__ import annotations

import dataclasses
import typing as t

from .text import Names, cells, fitted, shortened, span

SOON = 1.0  # seconds after which a task is worth a line


@dataclasses.dataclass
class Work:
    """A task that a node has begun, by the clock that the display has."""

    task: str
    begun: float
    note: str = ""
    asks: bool = False  # it asks the user, who would be overwritten
    said: float = 0.0  # when a log was told last


Working = t.Mapping[str, Work]


def rows(working: Working, names: Names, now: float, size: t.Tuple[int, int]) -> t.List[str]:
    """Return a line for each node, none longer or more than ``size`` (columns, lines) lets be."""
    late = [(host, one) for host, one in working.items() if now - one.begun >= SOON]
    if any(one.asks for one in working.values()):
        return []
    columns, most = size
    shown = late if len(late) <= most else late[: max(most - 1, 0)]
    lines = [_row(host, one, names, now, columns) for host, one in shown]
    if len(shown) < len(late) and most > 0:
        lines.append(f"  . and {len(late) - len(shown)} more nodes")
    return [fitted(line, columns) for line in lines]


def _row(host: str, work: Work, names: Names, now: float, columns: int) -> str:
    start = f"  . {span(now - work.begun):>9}  {names.column(host)}  "
    return start + fitted(work.task, columns - cells(start + work.note)) + work.note


def heartbeats(working: Working, now: float, interval: float) -> t.List[str]:
    """Return a line for each task that some node has run for ``interval`` seconds since it was last told of."""
    groups: t.Dict[str, t.Dict[str, Work]] = {}
    for host, one in working.items():
        groups.setdefault(f"{one.task}{one.note}", {})[host] = one
    return [_beat(task, works, now) for task, works in groups.items() if _due(works, now, interval)]


def _due(works: Working, now: float, interval: float) -> bool:
    return any(now - max(one.begun, one.said) >= interval for one in works.values())


def _beat(task: str, works: Working, now: float) -> str:
    for one in works.values():
        one.said = now
    longest = span(now - min(one.begun for one in works.values()))
    return f"  . {longest:>9}  {shortened(', '.join(works))}  {task}: still running"
