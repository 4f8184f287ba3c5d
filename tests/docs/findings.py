# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tests of each finding of the security review, for docs/evidence/security.md."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs/evidence/security.md"
NUMBERS = range(1, 20)
ROW = re.compile(r"^\| S(\d+) \|(.*)\|([^|]*)\|$", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def (test_s(\d+)_\w+)\(", re.MULTILINE)


def tests() -> dict[int, list[str]]:
    """Return the tests of each finding, as they are named on the page."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in TEST.findall(path.read_text()):
            found.setdefault(int(number), []).append(f"{path.stem}::{name}")
    return found


def shown() -> dict[int, list[str]]:
    """Return the tests that the page names for each finding."""
    rows = ROW.findall(PAGE.read_text())
    return {int(number): re.findall(r"`(\w+::\w+)`", cell) for number, _words, cell in rows}


def write() -> None:
    """Name on the page the tests that there are."""
    found = tests()

    def row(match: re.Match[str]) -> str:
        names = ", ".join(f"`{name}`" for name in found.get(int(match[1]), []))
        return f"| S{match[1]} |{match[2]}| {names} |"

    PAGE.write_text(ROW.sub(row, PAGE.read_text()))


if __name__ == "__main__":
    write()
