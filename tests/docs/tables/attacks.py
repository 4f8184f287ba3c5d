# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tests that repeat each attack, as their marker ``attack`` says, for the pages of evidence about security."""

from __future__ import annotations

import ast
import re

from tests.support.paths import TESTS

PAGES = [TESTS.parent / "docs/evidence" / one for one in ("security.md", "fractions/security.md")]
ROW = re.compile(r"^\| `([a-z-]+)` \|(.*)\|([^|]*)\|$", re.MULTILINE)
MARKER = re.compile(r"pytest\.mark\.attack\('([a-z-]+)'\)")


def tests() -> dict[str, list[str]]:
    """Return the tests that repeat each attack, as they are named on the pages."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                for marker in map(ast.unparse, node.decorator_list):
                    if attack := MARKER.fullmatch(marker):
                        found.setdefault(attack[1], []).append(f"{path.stem}::{node.name}")
    return found


def shown() -> dict[str, list[str]]:
    """Return the tests that the pages name for each attack."""
    rows = [row for page in PAGES for row in ROW.findall(page.read_text())]
    return {attack: re.findall(r"`(\w+::\w+)`", cell) for attack, _words, cell in rows}


def write() -> None:
    """Name on the pages the tests that there are."""
    found = tests()

    def row(match: re.Match[str]) -> str:
        names = ", ".join(f"`{name}`" for name in found.get(match[1], []))
        return f"| `{match[1]}` |{match[2]}| {names} |"

    for page in PAGES:
        page.write_text(ROW.sub(row, page.read_text()))


if __name__ == "__main__":
    write()
