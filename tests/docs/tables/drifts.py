# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What drifts in the tests, for docs/evidence/operations/plan.md: how it is made, what names it, and who mends it."""

from __future__ import annotations

import yaml

from tests.support.paths import REPOSITORY

DATA = REPOSITORY / "tests/node/drift/drifts.yml"
PAGE = REPOSITORY / "docs/evidence/operations/plan.md"
MARKS = ("<!-- drifts: written by make docs-tables -->\n", "<!-- drifts: end -->")
MENDED = {
    "run": "the run",
    "itself": "itself",
    "you": "refused or told, by name",
    "nobody": "nobody: it can't be seen",
}
HEAD = "| Of | What somebody else has done | Named | Mended by |\n| --- | --- | --- | --- |\n"


def table() -> str:
    """Return a row for each drift."""
    rows = [
        f"| {room}{f' ({on})' if (on := one.get('runtime')) else ''} | {one['what']} "
        f"| {f'`{named}`' if (named := one.get('named')) else ''} | {MENDED[one.get('who', 'run')]} |\n"
        for room, of in yaml.safe_load(DATA.read_text()).items()
        for one in of
    ]
    return HEAD + "".join(rows)


def shown() -> str:
    """Return the table that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])]


def write() -> None:
    """Put the table on the page."""
    text = PAGE.read_text()
    head, rest = text.partition(MARKS[0])[::2]
    PAGE.write_text(head + MARKS[0] + table() + rest[rest.index(MARKS[1]) :])


if __name__ == "__main__":
    write()
