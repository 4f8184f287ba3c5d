# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The end of the display: a table of the nodes, what failed, and what was counted."""

from __future__ import annotations

import collections
import typing as t

from .nodes import Failure, ProgressNode
from .text import Line, Names, fitted, wrapped

Counts = t.Mapping[str, int]
HEADER = ("node", "driver", "MIG", "reboot", "warnings", "result")
ALWAYS = ("node", "warnings", "result")
AGAIN = 8  # lines of a failure's message that are shown again
LOG = 120  # columns of a line that is shown again where there is no terminal


class Row(t.NamedTuple):
    """A node at the end, and Ansible's counts of it."""

    name: str
    node: ProgressNode
    counts: Counts

    @property
    def ok(self) -> int:
        """How many tasks went well; the controller's own are none of a node that was never reached."""
        return 0 if self.counts["unreachable"] and not self.node.calls else self.counts["ok"]

    @property
    def result(self) -> str:
        """How it ended, in a word."""
        for key, word in (("unreachable", "unreachable"), ("failures", "failed")):
            if self.counts[key]:
                return word
        if self.node.stopped:
            return "stopped"
        if not self.node.gpus:
            return "skipped"
        for key in ("rescued", "changed"):
            if self.counts[key]:
                return key
        return "ok" if self.ok or not self.counts["skipped"] else "skipped"

    @property
    def cells(self) -> t.Dict[str, str]:
        """What the table shows of it, by column."""
        node = self.node
        result = f"{self.result}, cordoned" if node.cordoned else self.result
        values = (self.name, node.driver, node.mig, node.reboot, str(len(node.warnings)), result)
        return dict(zip(HEADER, values, strict=True))


def summary(rows: t.Sequence[Row], names: Names, width: int, verbosity: int) -> t.List[Line]:
    """Return the end of the display at ``width`` columns, 0 for any."""
    lines = _table(rows, names, width)
    ready = [row for row in rows if row.node.ready] if verbosity else []
    lines += [Line(f"  {row.name}: {row.node.ready}", "ok") for row in ready]
    counts = collections.Counter(warning for row in rows for warning in row.node.warnings)
    again = [
        f"  {number} nodes: {warning_text}" for warning_text, number in counts.items() if number > 1
    ]
    lines += [
        Line(fitted(warning_text.split("\n")[0], width or LOG), "warning") for warning_text in again
    ]
    lines += _failures(rows, width)
    lines += [Line("")]
    for row in rows:
        lines += [
            Line(warning_text, row.result)
            for warning_text in wrapped(_counted(row), width, "  ", " " * 6)
        ]
    return lines


def _table(rows: t.Sequence[Row], names: Names, width: int) -> t.List[Line]:
    cells = [{**row.cells, "node": names.shown(row.name)} for row in rows]
    columns = [column for column in HEADER if column in ALWAYS or any(row[column] for row in cells)]
    sizes = {column: max(len(column), *(len(row[column]) for row in cells)) for column in columns}
    if width and sum(sizes.values()) + 2 * len(columns) > width:
        return [Line(column, row.result) for row in rows for column in _stacked(row, names, width)]

    def line(values: t.Mapping[str, str]) -> str:
        return "".join(f"  {values[column].ljust(sizes[column])}" for column in columns).rstrip()

    header = Line(line({column: column for column in columns}))
    return [header, *(Line(line(cell), row.result) for cell, row in zip(cells, rows, strict=True))]


def _stacked(row: Row, names: Names, width: int) -> t.List[str]:
    """Return a row that is too wide for the terminal below each other."""
    cells = [
        f"{column} {row.cells[column]}"
        for column in HEADER[1:-1]
        if row.cells[column] not in ("", "0")
    ]
    text = ", ".join([row.cells["result"], *cells])
    return wrapped(text, width, f"  {names.column(row.name)}  ", " " * 6)


def _failures(rows: t.Sequence[Row], width: int) -> t.List[Line]:
    nodes: t.Dict[Failure, t.Dict[str, None]] = collections.defaultdict(dict)
    for row in rows:
        for failure in row.node.failures:
            nodes[failure][row.name] = None
    failed = [
        text for failure, names in nodes.items() for text in _failure(list(names), failure, width)
    ]
    return [Line(failure, "failed") for failure in ["", *failed]] if failed else []


def _failure(names: t.List[str], failure: Failure, width: int) -> t.List[str]:
    """Return a failure with the full names of the nodes that have had it."""
    lines_of_reason = failure.reason.split("\n")
    more = ["…"] if len(lines_of_reason) > AGAIN else []
    many = [", ".join(names)] if len(names) > 1 else []
    subject = f"{len(names)} nodes" if many else names[0]
    lines = wrapped(f"{subject}: {failure.task}", width, "  ! ", " " * 6)
    for line_text in [*many, *lines_of_reason[:AGAIN], *more]:
        lines += wrapped(line_text, width, " " * 6, " " * 6)
    return lines


def _counted(row: Row) -> str:
    counts = row.counts
    text = f"changed={counts['changed']} ok={row.ok} failed={counts['failures']}"
    text += f" unreachable={counts['unreachable']} module calls={row.node.calls}"
    for key in ("skipped", "rescued", "ignored"):
        text += f" {key}={counts[key]}" if counts[key] else ""
    return f"{row.name}: {text}"
