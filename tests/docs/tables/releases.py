# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of docs/driver/releases.md, from the collection's own table of branches and bulletins."""

from __future__ import annotations

import sys

from ansible_collections.gpu.node.plugins.module_utils._core.driver.releases import known

from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/driver/releases.md"
MARKS = ("<!-- releases: written by make docs-tables -->", "<!-- releases: end -->")
UNKNOWN = "not found"


def tables() -> str:
    """Return the tables in Markdown: the branches, and the bulletins with the floors of each branch."""
    branches, bulletins = known.TABLE["branches"], known.TABLE["bulletins"]
    lines = [f"As of {known.TABLE['as_of']}.", ""]
    lines += ["| Branch | Kind | First release | End of support |", "| --- | --- | --- | --- |"]
    for name, row in branches.items():
        end = row.get("end_of_support") or ("ended" if row.get("ended") else UNKNOWN)
        kind = row.get("kind", UNKNOWN)
        lines.append(f"| {name} | {kind} | {row['first_release']} | {end} |")
    lines += ["", "| Bulletin | Date | Floors |", "| --- | --- | --- |"]
    for row in reversed(bulletins):
        floors = ", ".join(row["floors"].values())
        lines.append(f"| [{row['id']}]({row['url']}) | {row['date']} | {floors} |")
    return "\n".join(lines)


def shown() -> str:
    """Return the tables that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip()


def write() -> None:
    """Write the tables on the page."""
    text = PAGE.read_text()
    head, rest = text.split(MARKS[0])
    PAGE.write_text(f"{head}{MARKS[0]}\n\n{tables()}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    sys.exit(write())
