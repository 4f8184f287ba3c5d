# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long repairs took: what test_cluster_repair and test_slurm_repair have kept, as tables of their page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import DOCS, REPOSITORY

RESULTS = REPOSITORY / ".cache/repairs"
PAGE = DOCS / "evidence/repair/times.md"
WHERE = ("kubernetes", "dra", "slurm")
BEGIN, END = "<!-- {}: written by tests.node.repair.times -->\n", "<!-- {}: end -->"


class Repaired(NamedTuple):
    """A fault that ended as it had to; after how many seconds the GPU was set aside and given back, if it was."""

    fault: str
    verdict: str
    fenced: float | None
    released: float | None


def keep(where: str, rows: Sequence[Repaired]) -> None:
    """Add to what was kept of runs there."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{where}.jsonl").open("a") as stream:
        stream.writelines(f"{json.dumps(one)}\n" for one in rows)


HEAD = (
    "| Fault | Verdict | Runs | Set aside after | Given back after |",
    "| --- | --- | --- | --- | --- |",
)


def table(before: Sequence[str], rows: Sequence[Repaired]) -> Iterator[str]:
    """Yield the lines of a table: a row for each fault with the median, and the worst in brackets.

    ``before`` are the lines of the table as it is. What it has of a fault stays unless there are as many new runs.
    """
    yield from HEAD
    known = {one.split(" | ")[0].removeprefix("| "): one for one in before if one not in HEAD}
    for fault in dict.fromkeys(one.fault for one in rows):
        ours = [one for one in rows if one.fault == fault]
        if len(ours) >= int(known.get(fault, "|||0").split("|")[3]):
            known[fault] = _row(ours)
    yield from known.values()


def _row(runs: Sequence[Repaired]) -> str:
    times = [[one.fenced for one in runs], [one.released for one in runs]]
    cells = [runs[0].fault, f"`{runs[0].verdict}`", str(len(runs)), *map(_seconds, times)]
    return f"| {' | '.join(cells)} |"


def _seconds(found: Sequence[float | None]) -> str:
    known = [one for one in found if one is not None]
    return f"{statistics.median(known):.0f} s ({max(known):.0f} s)" if known else ""


def write(page: Path = PAGE, results: Path = RESULTS) -> None:
    """Put what was kept on its page."""
    text = page.read_text()
    for where in WHERE:
        path = results / f"{where}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [Repaired(*json.loads(one)) for one in lines]
        begin, end = BEGIN.format(where), END.format(where)
        before, _begin, rest = text.partition(begin)
        there, _end, after = rest.partition(end)
        written = "".join(f"{one}\n" for one in table(there.splitlines(), rows))
        text = f"{before}{begin}{written}{end}{after}"
    page.write_text(text)


if __name__ == "__main__":
    write()
