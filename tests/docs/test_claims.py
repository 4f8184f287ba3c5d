# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each test that a page names as showing something is there, runs, and can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tables import claims

PAGES = claims.pages()
CLAIMS = [(page, *one) for page, text in PAGES.items() for one in claims.claims(text)]
ROWS = [row for text in PAGES.values() for row in claims.rows(text)]
MINIMUM = {"device-plugin": 150, "node-labels": 60, "mps": 50, "driver": 80}
MINIMUM |= {
    "container-runtimes": 3,
    "container-toolkit": 3,
    "security": 19,
    "driver/releases": 7,
}
GOOD = """\
import pytest
def check(x): assert x
def test_direct(): assert 1 + 1 == 2
def test_raises():
    with pytest.raises(ValueError): int("x")
def test_by_a_helper(): check(1)
def test_by_a_helper_of_a_helper(): later(1)
class TestOne:
    def test_in_a_class(self): assert self
"""
BAD = """\
import pytest
def look(): return 1
def test_emptied(): pass
def test_constant(): assert True
def test_only_looks(): look()
@pytest.mark.skip(reason="later")
def test_marked(): assert 1 + 1 == 3
@pytest.mark.xfail
def test_expected_to_fail(): assert 1 + 1 == 3
def test_first_skips():
    pytest.skip("later")
    assert 1 + 1 == 3
def outer():
    def test_inside(): assert 1 + 1 == 3
# def test_commented(): assert 1 + 1 == 3
"""


@pytest.mark.parametrize(("page", "file", "test"), CLAIMS)
def test_what_a_page_names_can_tell(page: str, file: str, test: str) -> None:
    assert claims.refused(file, test) == "", page


@pytest.mark.parametrize(("page", "count"), MINIMUM.items())
def test_pages_claim_something(page: str, count: int) -> None:
    assert len([one for one in CLAIMS if one[0] == f"docs/evidence/{page}.md"]) >= count


@pytest.mark.parametrize("page", [one for one in PAGES if not one.startswith("docs/evidence/")])
def test_tests_are_named_on_evidence_pages_alone(page: str) -> None:
    assert claims.claims(PAGES[page]) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_row_says_what_shows_it(row: str) -> None:
    assert claims.claims(row), row


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "test_good.py").write_text(GOOD)
    (tmp_path / "test_bad.py").write_text(BAD)
    (tmp_path / "helper.py").write_text("def wait(x): assert x\n")
    (tmp_path / "shared.py").write_text("def wait(x): helper.wait(x)\ndef later(x): wait(x)\n")
    (tmp_path / "test_later.py").write_text("import pytest\npytestmark = pytest.mark.skip\n" + GOOD)
    return tmp_path


@pytest.mark.parametrize(
    "test",
    [
        "test_direct",
        "test_raises",
        "test_by_a_helper",
        "test_by_a_helper_of_a_helper",
        "test_in_a_class",
    ],
)
def test_tests_that_can_fail_are_accepted(tests: Path, test: str) -> None:
    assert claims.refused("test_good", test, tests) == ""


@pytest.mark.parametrize(
    ("file", "test", "words"),
    [
        ("test_none", "test_direct", "no test_none.py"),
        ("test_bad", "test_none", "has no test_none"),
        ("test_bad", "test_inside", "has no test_inside"),
        ("test_bad", "test_commented", "has no test_commented"),
        ("test_good", "check", "does not collect"),
        ("test_bad", "test_emptied", "asserts nothing"),
        ("test_bad", "test_constant", "asserts nothing"),
        ("test_bad", "test_only_looks", "asserts nothing"),
        ("test_bad", "test_marked", "always skipped"),
        ("test_bad", "test_expected_to_fail", "always skipped"),
        ("test_bad", "test_first_skips", "always skipped"),
        ("test_later", "test_direct", "always skipped"),
    ],
)
def test_tests_that_can_not_fail_are_refused(tests: Path, file: str, test: str, words: str) -> None:
    assert words in claims.refused(file, test, tests)
