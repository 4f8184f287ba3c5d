# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pages begin with what a reader wants to do: a sentence, and an example within the first lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tables import pages

FIRST = 40  # lines: about a screen
# Tables that one looks up: a map of pages, and what has been renamed.
TABLES = ("docs/index.md", "docs/operations/migration.md")
READ = [
    one
    for one in pages.pages()
    if one.is_relative_to(pages.ROOT / "docs")
    and "evidence" not in one.parts
    and pages.name(one) not in TABLES
]


@pytest.mark.parametrize("page", READ, ids=pages.name)
def test_a_page_begins_with_a_task_and_an_example(page: Path) -> None:
    title, _empty, first, *rest = page.read_text().splitlines()
    assert title.startswith("# ")
    assert first[:1].isalpha() or first[:1] in "`*[", first
    assert any(one.lstrip().startswith("```") for one in [first, *rest][:FIRST])


def test_the_first_page_says_what_for_whom_and_what_it_needs() -> None:
    text = (pages.ROOT / "README.md").read_text()
    titles = pages.HEADING.findall(pages.FENCED.sub("", text))
    assert titles[:4] == ["gpu.node", "Prerequisites", "Quick start", "The demo"]
    screen = text.partition("## Prerequisites")[0]
    assert "For whom" in screen
    assert "What it does not do" in screen
    for system in ("Debian 12", "Debian 13", "Ubuntu", "RHEL", "Fedora", "Amazon Linux", "SLES"):
        assert system in text.partition("## Prerequisites")[2].partition("## Quick start")[0]


@pytest.mark.parametrize("kind", ["playbooks", "plugins/modules", "roles"])
def test_the_first_page_lists_what_there_is(kind: str) -> None:
    folder = pages.ROOT / kind
    there = {one.stem for one in folder.iterdir() if one.suffix in (".yml", ".py")}
    if kind == "roles":
        there = {one.name for one in folder.iterdir()} - {"common", "node_labels"}
    text = (pages.ROOT / "README.md").read_text()
    assert {one for one in there if f"| `gpu.node.{one}` |" not in text} == set()
