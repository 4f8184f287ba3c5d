# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of docs/migration/tables: each variable of another tool, and what becomes of it here.

A row names theirs, as they are or by a pattern, and has one of ``to`` (names of ours), ``not_needed`` and
``not_there`` (the reason). A row takes what no row before it has taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import REPOSITORY

DATA = Path(__file__).resolve().parent / "migration"
FOLDER = REPOSITORY / "docs/migration"
TABLES = FOLDER / "tables"
MARKS = ("<!-- table: written by make docs-tables -->", "<!-- table: end -->")
VERDICTS = ("to", "not_needed", "not_there")
MOST_IN_A_CELL = 6


@dataclass
class Row:
    """What a table's row says, and the names that it stands for."""

    said: Mapping[str, Any]
    taken: list[str] = field(default_factory=list)

    def theirs(self) -> str:
        """Return the first cell: the names, or the patterns of many."""
        many = len(self.taken) > MOST_IN_A_CELL
        return ", ".join(f"`{one}`" for one in (self.said["names"] if many else self.taken))

    def here(self) -> str:
        """Return the second cell."""
        ours = ", ".join(f"`{one}`" for one in self.said.get("to", ()))
        refused = next((one for one in VERDICTS[1:] if one in self.said), "")
        reason = f"{refused.replace('_', ' ')}: {self.said[refused]}" if refused else ""
        return "; ".join(one for one in (ours, reason, self.said.get("note", "")) if one)


def pages() -> list[str]:
    """Return the names of the pages that have a table."""
    return sorted(path.stem for path in DATA.glob("*.yml") if not path.stem.endswith(".names"))


def said(page: str) -> dict[str, Any]:
    """Return what we say: ``repository``, ``reads`` and ``sections`` with ``title``, ``of`` and ``rows``."""
    return dict(yaml.safe_load((DATA / f"{page}.yml").read_text()))


def recorded(page: str) -> dict[str, Any]:
    """Return what upstream.py has written: ``release``, ``commit``, and ``names`` by their kind."""
    return dict(yaml.safe_load((DATA / f"{page}.names.yml").read_text()))


def mapped(page: str) -> tuple[list[tuple[str, list[Row]]], list[str]]:
    """Return the sections with their rows, and the names that no row takes."""
    open_names = {of: sorted(names) for of, names in recorded(page)["names"].items()}
    sections = []
    for section in said(page)["sections"]:
        rows = [Row(row) for row in section["rows"]]
        for row in rows:
            left = open_names[section["of"]]
            row.taken = [one for one in left if any(fits(one, pat) for pat in row.said["names"])]
            open_names[section["of"]] = [one for one in left if one not in row.taken]
        sections.append((section["title"], rows))
    return sections, [f"{of}: {one}" for of, names in open_names.items() for one in names]


def fits(name: str, pattern: str) -> bool:
    """Return whether a name is the pattern, or what its stars stand for."""
    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))


def table(page: str) -> str:
    """Return the tables of a page in Markdown. Their links are told from the folder above theirs."""
    facts = recorded(page)
    lines = [
        f"Read at {said(page)['repository']} {facts['release']}, commit `{facts['commit'][:12]}`."
    ]
    for title, rows in mapped(page)[0]:
        lines += ["", f"### {title}", "", "| There | Here |", "| --- | --- |"]
        lines += [f"| {row.theirs()} | {row.here()} |" for row in rows]
        lines += list(_expanded(rows))
    return re.sub(r"\]\((?!https?:)", "](../", "\n".join(lines))


def _expanded(rows: list[Row]) -> Iterator[str]:
    """Yield what the patterns of long rows stand for, so that each name is found on the page."""
    for row in rows:
        if len(row.taken) > MOST_IN_A_CELL and any("*" in one for one in row.said["names"]):
            names = ", ".join(f"`{one}`" for one in row.taken)
            yield from ("", f"{row.theirs()} stands for {names}.")


def shown(page: str) -> str:
    """Return the tables that a page has. ValueError: its marks are gone."""
    text = (TABLES / f"{page}.md").read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip()


def text(page: str) -> str:
    """Return what a page and that of its table say, the table last."""
    return "".join((folder / f"{page}.md").read_text() for folder in (FOLDER, TABLES))


def words(page: str) -> set[str]:
    """Return what a page and that of its table write as code outside of the table and of examples."""
    prose = re.sub(r"^```.*?^```$", "", text(page).split(MARKS[0])[0], flags=re.M | re.S)
    return set(re.findall(r"`([^`\n]+)`", prose))


def write(page: str) -> None:
    """Write the tables on a page."""
    path = TABLES / f"{page}.md"
    head, rest = path.read_text().split(MARKS[0])
    path.write_text(f"{head}{MARKS[0]}\n\n{table(page)}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    for one in pages():
        write(one)
