# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about the device plugin says of each row what shows it, and has a configuration that works.

tests/unit/test_claims.py sees to the tests that the rows name.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpu_plugin.config.configuration import parse

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parents[1] / "docs"
PAGE = (DOCS / "device-plugin.md").read_text()
LABELS = (DOCS / "node-labels.md").read_text()
ROWS = [line for line in (PAGE + LABELS).splitlines() if line.startswith("| ") and "::" in line]


def test_there_are_rows() -> None:
    assert len(ROWS) > 40


def test_each_fault_says_what_happens() -> None:
    table = PAGE.partition("| fault | what happens | for how long | shown by |\n")[2]
    rows = table.partition("\n\n")[0].splitlines()[1:]
    assert len(rows) > 30
    for row in rows:
        fault, happens, _until, shown = (cell.strip() for cell in row.strip("|").split("|"))
        assert fault, row
        assert happens, row
        assert "::" in shown, row


def test_its_configuration_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = parse(text)
    assert [share.offered_as for share in config.sharing.shares] == [
        "nvidia.com/gpu.shared",
        "nvidia.com/notebooks",
    ]
