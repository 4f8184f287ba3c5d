# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages about container runtimes name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("container-runtimes.md", "container-toolkit.md")
NAMED = [
    (page, *found)
    for page in PAGES
    for found in sorted(set(re.findall(r"`(test_\w+)::(\w+)`", (ROOT / "docs" / page).read_text())))
]


@pytest.mark.parametrize("page", PAGES)
def test_there_are_some(page: str) -> None:
    assert len([name for name in NAMED if name[0] == page]) >= 3


@pytest.mark.parametrize(("page", "file", "test"), NAMED)
def test_it_exists(page: str, file: str, test: str) -> None:
    (path,) = (ROOT / "tests").rglob(f"{file}.py")
    assert f"def {test}(" in path.read_text(), page
