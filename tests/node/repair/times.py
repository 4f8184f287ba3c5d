# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long repairs took: what test_cluster_repair and test_slurm_repair have kept, as tables of their page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.support.paths import DOCS, REPOSITORY

RESULTS = REPOSITORY / ".cache/repairs"
PAGE = DOCS / "evidence/repair/times.md"
WHERE = ("kubernetes", "slurm")
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


def table(rows: Sequence[Repaired]) -> Iterator[str]:
    """Yield the lines of a table: a row for each fault with the median, and the worst in brackets."""
    yield "| Fault | Verdict | Runs | Set aside after | Given back after |"
    yield "| --- | --- | --- | --- | --- |"
    for fault in dict.fromkeys(one.fault for one in rows):
        ours = [one for one in rows if one.fault == fault]
        times = [[one.fenced for one in ours], [one.released for one in ours]]
        cells = [fault, f"`{ours[0].verdict}`", str(len(ours)), *map(_seconds, times)]
        yield f"| {' | '.join(cells)} |"


def _seconds(found: Sequence[float | None]) -> str:
    known = [one for one in found if one is not None]
    return f"{statistics.median(known):.0f} s ({max(known):.0f} s)" if known else ""


def write() -> None:
    """Put what was kept on its page."""
    text = PAGE.read_text()
    for where in WHERE:
        path = RESULTS / f"{where}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [Repaired(*json.loads(one)) for one in lines]
        begin, end = BEGIN.format(where), END.format(where)
        before, _begin, after = text.partition(begin)
        text = f"{before}{begin}" + "".join(f"{one}\n" for one in table(rows)) + end
        text += after.partition(end)[2]
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
