# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about health names each XID of the table, with what follows."""

from __future__ import annotations

import re

from ansible_collections.gpu.node.plugins.module_utils._repair.xids.known import TABLE

from tests.support.paths import DOCS

# What a row of the page says first of what follows, and the actions that it stands for.
FOLLOWS = {
    "nothing: who runs": {"restart_application"},
    "nothing: information": {"none"},
    "`reset`": {"reset"},
    "`ask`": {"ask"},
    "`reboot`": {"reboot", "replace"},
}


def numbers_of(cell: str) -> set[int]:
    """Return the XIDs that a cell names, ranges included."""
    numbers: set[int] = set()
    for first, last in re.findall(r"\b(\d+)(?: to (\d+))?", cell):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_the_page_names_each_xid_with_what_follows() -> None:
    page = (DOCS / "device-plugin/health.md").read_text()
    table = page[page.index("| XIDs | what follows |") :].partition("\n\n")[0]
    on_page: dict[int, set[str]] = {}
    for line in table.splitlines()[2:]:
        cell, follows = line.strip("| ").split(" | ", 1)
        actions = next(FOLLOWS[start] for start in FOLLOWS if follows.startswith(start))
        on_page.update(dict.fromkeys(numbers_of(cell), actions))
    in_table = {int(number): row["action"] for number, row in TABLE["xids"].items()}
    assert on_page.keys() == in_table.keys()
    assert {xid: in_table[xid] for xid in on_page if in_table[xid] not in on_page[xid]} == {}
