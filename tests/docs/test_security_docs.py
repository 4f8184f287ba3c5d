# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about security: each attack has its tests there, and what two pages say agrees."""

from __future__ import annotations

import yaml

from tests.docs.tables import attacks
from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
PAGE = (ROOT / "docs/security.md").read_text()
EVIDENCE = "".join(one.read_text() for one in attacks.PAGES)
MPS = (ROOT / "docs/mps.md").read_text()
REPORT = (ROOT / "SECURITY.md").read_text()


def isolation(page: str) -> str:
    return page.partition("<!-- isolation: the same")[2].partition("<!-- isolation: end -->")[0]


def test_each_attack_on_the_page_names_the_tests_that_repeat_it() -> None:
    assert attacks.shown() == attacks.tests(), "run make docs-tables"
    assert len(attacks.shown()) == len(attacks.ROW.findall(EVIDENCE)) >= 27


def test_both_pages_have_the_same_table_of_what_is_isolated() -> None:
    assert isolation(PAGE).count("\n|") > 8
    assert isolation(PAGE) == isolation(MPS)


def test_a_report_goes_to_the_repository() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    assert galaxy["repository"] in REPORT
    assert "@" not in REPORT  # no address that nobody reads
    assert "(docs/security.md)" in REPORT
    assert "(docs/security.md)" in (ROOT / "README.md").read_text()
