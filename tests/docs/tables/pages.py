# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages of the documentation: their links, headings and blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")


def pages() -> list[Path]:
    """Return all pages that people read."""
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name(page: Path) -> str:
    """Return a page's path from the repository's root."""
    return str(page.relative_to(ROOT))


def links(text: str) -> list[str]:
    """Return the targets of a text's links within the repository, without those in blocks of code."""
    plain = re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))
    return [one for one in LINK.findall(plain) if not one.startswith(ELSEWHERE)]


def anchors(text: str) -> set[str]:
    """Return the anchors of a text's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for title in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {f"{one}-{n}" if n else one for one, last in found.items() for n in range(last + 1)}


def dead(page: Path, text: str) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for target in links(text):
        file, _sign, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        has = path.exists() and (
            not anchor or path.suffix != ".md" or anchor in anchors(path.read_text())
        )
        if not has:
            yield target


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code of one language, without the indentation of a list."""
    return [
        re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        for indent, kind, body in FENCED.findall(text)
        if kind == language
    ]
