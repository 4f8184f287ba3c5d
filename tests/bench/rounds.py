# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The same fault again and again: how long it takes until all is well, what is lost, and who was restarted."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("ENDURANCE_ROUNDS", "20"))
COLUMNS = ("fault", "rounds", "recovery", "worst", "Healthy meanwhile", "lost", "restarts")
PROPERTY = "endurance"


@dataclass
class Row:
    """What became of a fault. Times are in seconds."""

    fault: str
    devices: int
    times: list[float] = field(default_factory=list)
    least: int = 1 << 30
    lost: int = 0
    restarts: int = 0

    def cells(self) -> list[str]:
        """Return it as a row of the table."""
        middle, worst = statistics.median(self.times), max(self.times)
        meanwhile = f"{self.least} of {self.devices}"
        times = (f"{middle:.2f} s", f"{worst:.2f} s")
        counts = (str(self.lost), str(self.restarts))
        return [self.fault, str(len(self.times)), *times, meanwhile, *counts]


class Rounds:
    """Rounds of a fault on a node whose devices ``healthy`` counts; ``pids`` are those who serve."""

    def __init__(
        self,
        fault: str,
        healthy: Callable[[], int],
        pids: Callable[[], object],
        record: Callable[[str, object], None],
    ) -> None:
        self._healthy, self._pids, self._record = healthy, pids, record
        self._known = pids()
        self.row = Row(fault, healthy())

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the rounds, and keep for the table what was seen in them."""
        yield from range(ROUNDS)
        self._record(PROPERTY, asdict(self.row))

    def shows(self, look: Callable[[], object]) -> None:
        """Wait until a fault shows."""

        def seen() -> object:
            self.row.least = min(self.row.least, self._healthy())
            return look()

        eventually(seen)

    def recovers(
        self, mend: Callable[[], object], well: Callable[[], object] = lambda: True
    ) -> None:
        """End a fault and measure how long it takes until all is well."""
        begun = time.monotonic()
        mend()
        self.shows(lambda: well() and self._healthy() == self.row.devices)
        self.row.times.append(time.monotonic() - begun)
        self.row.lost += self.row.devices - self._healthy()
        self.row.restarts += self._pids() != self._known
        self._known = self._pids()

    def check(self, *, spared: int, restarts: int = 0) -> None:
        """Check that all rounds were gone through, and that what a fault does not concern was spared."""
        assert len(self.row.times) == ROUNDS
        assert self.row.least >= spared
        assert (self.row.lost, self.row.restarts) == (0, restarts)


def table(reports: Iterable[Any]) -> list[str]:
    """Return the table of what the tests of a run have recorded, empty where none has."""
    rows = [
        Row(**value).cells()
        for report in reports
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    lines = [list(COLUMNS), *sorted(rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)) for line in lines]


def show(reporter: pytest.TerminalReporter) -> None:
    """Show the table of a run, where there is one."""
    if lines := table(reporter.getreports("passed")):
        reporter.section("faults, again and again")
        reporter.write("\n".join(lines) + "\n")
