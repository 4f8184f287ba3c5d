# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages about the device plugin say of each row what shows it, and have a configuration that works.

tests/docs/test_claims.py sees to the tests that the rows name.
"""

from __future__ import annotations

import re

from gpu_plugin.config.configuration import parse

from tests.docs.tables import keys
from tests.support.paths import DOCS

PAGE = (DOCS / "device-plugin.md").read_text()
FAULTS = (DOCS / "device-plugin/faults.md").read_text()
EVIDENCE = (DOCS / "evidence/device-plugin.md").read_text()
LABELS = (DOCS / "evidence/node-labels.md").read_text()
ROWS = [line for line in (EVIDENCE + LABELS).splitlines() if line.startswith("| ") and "::" in line]


def table(page: str, head: str) -> list[list[str]]:
    """Return the cells of the rows below a table's head."""
    rows = page.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_faults_are_read_from_the_page() -> None:
    assert len(ROWS) > 40


def test_each_fault_says_what_happens() -> None:
    faults = [(row[0], row[1]) for row in table(FAULTS, "| fault | what happens | for how long |")]
    shown = table(EVIDENCE, "| fault | shown by |")
    assert len(faults) > 30
    assert [fault for fault, _happens in faults] == [row[0] for row in shown]
    assert all(fault and happens for fault, happens in faults)
    assert all("::" in row[1] for row in shown)


def test_each_key_of_the_configuration_is_on_the_page() -> None:
    assert keys.shown() == keys.table(), "run make docs-tables"
    assert len(table(keys.PAGE.read_text(), "| Key | Flags | Environment | Default | |")) > 20


def test_its_configuration_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(version: v1.*?)```", PAGE, re.DOTALL)
    config = parse(text)
    assert [share.offered_as for share in config.sharing.shares] == [
        "nvidia.com/gpu.shared",
        "nvidia.com/notebooks",
    ]
