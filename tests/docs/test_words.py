# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pages for users and the texts of options have the field's words, not those that only this project has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.tables import pages

# What no text says, and what it says instead, as the prose linter has it. Here pages of evidence are read too.
RULES = yaml.safe_load((pages.ROOT / "tests/docs/prose/rules.yml").read_text())
INSTEAD = RULES["instead"]["the field's words"]
PAGES = [one for one in pages.pages() if one.parent.name != "development"]
OPTIONS = sorted((pages.ROOT / "options").glob("*.yml"))
SAID = {"description", "help", "role", "short_description"}


def prose(text: str) -> str:
    """Return a text in one line, without code and addresses."""
    code = r"<[^>\n]*>|\]\([^)\s]*\)|`[^`\n]*`|\b[A-Z]+\([^)]*\)"
    return " ".join(re.sub(code, "", pages.FENCED.sub("", text)).split())


def said(data: Any, *, reads: bool = False) -> Iterator[str]:
    """Yield what a table of options says of them."""
    if isinstance(data, dict):
        for key, one in data.items():
            yield from said(one, reads=key in SAID)
    elif isinstance(data, list):
        for one in data:
            yield from said(one, reads=reads)
    elif reads and isinstance(data, str):
        yield data


def wrong(text: str) -> Iterator[str]:
    """Yield what a text should not say, with what stands around it, and what it says instead."""
    for pattern, instead in INSTEAD.items():
        for found in re.finditer(rf"(?<!-)\b(?:{pattern})\b(?!-)", text, re.IGNORECASE):
            yield f"{text[max(found.start() - 30, 0) : found.end() + 20]!r}: {instead}"


@pytest.mark.parametrize("page", [*PAGES, *OPTIONS], ids=pages.name)
def test_a_text_has_the_fields_words(page: Path) -> None:
    text = page.read_text()
    texts = said(yaml.safe_load(text)) if page in OPTIONS else [text]
    assert [one for each in texts for one in wrong(prose(each))] == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The daemon waits.", 1),
        ("Its MPS control\ndaemon waits; run `systemctl daemon-reload` for a DaemonSet.", 0),
        ("What a look\nat the node tells of each part.", 2),
        ("Take a part of it, and look for [space](rooms.md).", 0),
        ("```\nthe daemon\n```\n", 0),
    ],
)
def test_a_word_that_is_not_the_fields_is_seen(text: str, number: int) -> None:
    assert len(list(wrong(prose(text)))) == number
