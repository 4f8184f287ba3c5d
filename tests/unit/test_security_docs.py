# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about security: each finding has its tests there, and what two pages say agrees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))
import findings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
EVIDENCE = findings.PAGE.read_text()
MPS = (ROOT / "docs/mps.md").read_text()
REPORT = (ROOT / "SECURITY.md").read_text()


def isolation(page: str) -> str:
    return page.partition("<!-- isolation: the same")[2].partition("<!-- isolation: end -->")[0]


@pytest.mark.parametrize("number", findings.NUMBERS)
def test_each_finding_has_tests_and_the_page_names_them(number: int) -> None:
    there = findings.tests().get(number, [])
    assert there, f"no test_s{number}_..."
    assert findings.shown()[number] == there, "run make docs-tables"


def test_nothing_else_is_named() -> None:
    assert sorted(findings.tests()) == sorted(findings.shown()) == list(findings.NUMBERS)
    assert len(findings.ROW.findall(EVIDENCE)) == len(findings.NUMBERS)


def test_both_pages_have_the_same_table_of_what_is_isolated() -> None:
    assert isolation(PAGE).count("\n|") > 8
    assert isolation(PAGE) == isolation(MPS)


def test_a_report_goes_to_the_repository() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    assert galaxy["repository"] in REPORT
    assert "@" not in REPORT  # no address that nobody reads
    assert "(docs/security.md)" in REPORT
    assert "(docs/security.md)" in (ROOT / "README.md").read_text()
