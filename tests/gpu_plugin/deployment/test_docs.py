# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about the device plugin names tests that are there, and a configuration that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_plugin.config.configuration import parse

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parents[1] / "docs"
PAGE = (DOCS / "device-plugin.md").read_text()
LABELS = (DOCS / "node-labels.md").read_text()
ROWS = [line for line in (PAGE + LABELS).splitlines() if line.startswith("| ") and "::" in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_row_names_tests_that_exist(row: str) -> None:
    for file, test in re.findall(r"`(test_\w+)::(\w+)`", row):
        (path,) = TESTS.rglob(f"{file}.py")
        assert f"def {test}(" in path.read_text(), f"{file}::{test}"


def test_there_are_rows() -> None:
    assert len(ROWS) > 40


def test_its_configuration_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = parse(text)
    assert [share.offered_as for share in config.sharing.shares] == [
        "nvidia.com/gpu.shared",
        "nvidia.com/notebooks",
    ]
