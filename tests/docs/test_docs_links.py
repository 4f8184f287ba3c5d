# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each link of each page leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tables import pages


@pytest.mark.parametrize("page", pages.pages(), ids=pages.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(pages.dead(page, page.read_text())) == []


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("there.md", True),
        ("there.md#one-title", True),
        ("there.md#one-title-1", True),
        ("there.md#one-title-2", False),
        ("there.md#in-code", False),
        ("#of-its-own", True),
        ("gone.md", False),
        ("https://example.com/gone", True),
    ],
)
def test_the_checker_sees_what_is_dead(tmp_path: Path, target: str, leads: bool) -> None:
    (tmp_path / "there.md").write_text("# One title\n\n```\n# in code\n```\n\n## One *title*\n")
    page = tmp_path / "page.md"
    text = f"# `Of` its own\n\n```\n[no](link.md)\n```\n\n[a link]({target})\n"
    page.write_text(text)
    assert (list(pages.dead(page, text)) == []) is leads
