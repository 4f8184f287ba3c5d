# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the prose linter reads: paragraphs, headings, and cells of pages, and descriptions in YAML."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

# Code, placeholders, Ansible's markup, and the addresses of links.
CODE = re.compile(
    r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|<[^<>\n]+>|https?://\S+|\b[A-Z]{1,2}\([^)]*\)", re.DOTALL
)
ADDRESS = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\([^)]*\)")
# The keys of options, and of return values, whose texts people read; a changelog's sections are lists of texts.
SAID = {"description", "help", "notes", "role", "short_description"}
DOCUMENTED = {"DOCUMENTATION", "RETURN"}


@dataclass(frozen=True)
class Text:
    """A paragraph, a heading, a cell or a description, and the line of its file that it begins on."""

    kind: str
    line: int
    words: str

    def line_of(self, offset: int) -> int:
        """Return the line that a character of the text is on."""
        return self.line + self.words.count("\n", 0, offset)


def texts(path: Path) -> Iterator[Text]:
    """Yield what a file says to people, without code and addresses."""
    content = path.read_text()
    if path.suffix == ".md":
        return of_page(content)
    if path.suffix == ".py":
        return of_module(content)
    return of_yaml(content, read="fragments" in path.parts)


def of_page(content: str) -> Iterator[Text]:
    """Yield the paragraphs, headings and cells of a page in Markdown."""
    kind = "text"
    for token in MarkdownIt("commonmark").enable("table").parse(content):
        if token.type == "inline":
            yield Text(kind, (token.map or [0])[0] + 1, plain(token.content))
        else:
            kind = {"heading_open": "heading", "th_open": "heading"}.get(token.type, "text")


def of_module(content: str) -> Iterator[Text]:
    """Yield what a module or plugin documents of itself."""
    for node in ast.parse(content).body:
        names = [one.id for one in getattr(node, "targets", ()) if isinstance(one, ast.Name)]
        if isinstance(node, ast.Assign) and DOCUMENTED.intersection(names):
            yield from of_yaml(ast.literal_eval(node.value), first=node.lineno)


def of_yaml(content: str, *, first: int = 1, read: bool = False) -> Iterator[Text]:
    """Yield the descriptions in YAML whose first line is a file's ``first``, or with ``read`` all its texts."""
    return _said(yaml.compose(content, Loader=yaml.SafeLoader), first, read)


def _said(node: yaml.Node | None, first: int, read: bool) -> Iterator[Text]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _said(value, first, read or key.value in SAID)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _said(value, first, read)
    elif isinstance(node, yaml.ScalarNode) and read and node.tag.endswith(":str"):
        yield Text("text", node.start_mark.line + first, plain(node.value))


def plain(text: str) -> str:
    """Return a text with a word of underscores where it has code, and the words of links in brackets."""
    covered = CODE.sub(lambda one: re.sub(r"[^\n]", "_", one.group()), text)
    return ADDRESS.sub(
        lambda one: one.group(1) + "\n" * one.group().count("\n", one.end(1) - one.start()), covered
    )
