# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A test that a page names as showing something is there, runs, and can fail: the check can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.tables import claims

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


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "test_good.py").write_text(GOOD)
    (tmp_path / "test_bad.py").write_text(BAD)
    (tmp_path / "helper.py").write_text("def wait(x): assert x\n")
    (tmp_path / "shared.py").write_text("def wait(x): helper.wait(x)\ndef later(x): wait(x)\n")
    (tmp_path / "test_later.py").write_text("import pytest\npytestmark = pytest.mark.skip\n" + GOOD)
    return tmp_path


def test_tests_that_can_fail_are_accepted(tests: Path) -> None:
    names = re.findall(r"def (test_\w+)", GOOD)
    assert [claims.refused("test_good", name, tests) for name in names] == [""] * 5


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
