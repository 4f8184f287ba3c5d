# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of how long repairs took."""

from __future__ import annotations

import json
from pathlib import Path

from tests.node.repair.times import BEGIN, END, HEAD, WHERE, Repaired, write

OLD = "| a fault | `reset` | 2 | 76 s (96 s) |  |"
OTHER = "| another fault | `ask` | 20 | 81 s (552 s) |  |"


def page(*rows: str) -> str:
    """Return a page with such rows in its first table, and none in the others."""
    found = ["before\n"]
    for where in WHERE:
        lines = [*HEAD, *(rows if where == WHERE[0] else ())]
        found.append(BEGIN.format(where) + "".join(f"{one}\n" for one in lines) + END.format(where))
    return "\nbetween\n".join([*found, "after\n"])


def test_a_row_stays_until_there_are_as_many_new_runs(tmp_path: Path) -> None:
    there = tmp_path / "times.md"
    there.write_text(page(OLD, OTHER))
    write(there, tmp_path)
    assert there.read_text() == page(OLD, OTHER)
    runs = [
        Repaired("a fault", "reset", 1.0, 4.0),
        Repaired("a new one", "reboot", None, None),
        Repaired("another fault", "ask", 1.0, None),
        Repaired("a fault", "reset", 3.0, 6.0),
    ]
    (tmp_path / f"{WHERE[0]}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in runs))
    write(there, tmp_path)
    mine = "| a fault | `reset` | 2 | 2 s (3 s) | 5 s (6 s) |"
    assert there.read_text() == page(mine, OTHER, "| a new one | `reboot` | 1 |  |  |")
