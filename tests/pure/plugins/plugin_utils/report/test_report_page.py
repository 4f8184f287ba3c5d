# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of a report: no text of a node gets out of its data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import printable
from ansible_collections.gpu.node.plugins.plugin_utils.report.nodes import fleet, node
from ansible_collections.gpu.node.plugins.plugin_utils.report.page import embedded, page
from hypothesis import given
from hypothesis import strategies as st

from tests.support.browser import fleets

HOSTILE = st.text() | st.sampled_from(
    ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u2028", "@DATA@", "\ud800"]
)

SVG = "http://www.w3.org/2000/svg"  # the name of its elements, which nothing loads


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in in self.texts:
            self.texts[self._in][-1] += data


def made(title: str, name: str, label: str) -> tuple[str, dict[str, Any]]:
    answer = fleets.answer([], labels={label: label, "key": name}, drift={"mig": [name]})
    report = fleet(title, fleets.MADE, [node(name, answer, None)])
    return page(report), report


PLAIN = [tag for tag, _attributes in Elements(made("t", "n", "l")[0]).found]


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_text_becomes_markup(title: str, name: str, label: str) -> None:
    text, _report = made(title, name, label)
    elements = Elements(text)
    assert [tag for tag, _attributes in elements.found] == PLAIN
    text.encode("utf-8")
    (shown,) = json.loads(elements.texts["script"][0])["nodes"]
    assert shown["name"] == printable(name, keep="\n")
    assert "".join(elements.texts["title"]) == printable(title)


@given(st.recursive(HOSTILE, lambda of: st.lists(of) | st.dictionaries(HOSTILE, of)))
def test_embedded_json_has_its_value_and_no_way_out(value: Any) -> None:
    text = embedded(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_the_policy_lets_run_what_is_in_the_page_and_nothing_else() -> None:
    text, _report = made("t", "n", "l")
    elements = Elements(text)
    (policy,) = (one["content"] for _tag, one in elements.found if "http-equiv" in one)
    rules = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind, of in (
        ("script-src", elements.texts["script"][1]),
        ("style-src", elements.texts["style"][0]),
    ):
        digest = base64.b64encode(hashlib.sha256(of.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    loads = text.replace(f'"{SVG}"', "")
    assert not re.search(r"(?:src|href)=[\"'](?!#)|url\(|@import|https?://", loads)
    assert not [
        one
        for _tag, one in elements.found
        if "style" in one or any(k.startswith("on") for k in one)
    ]


def test_what_turns_the_reading_direction_is_written_out() -> None:
    text, _report = made("t", "a\u202egnp.exe", "l")
    assert "\\\\u202egnp.exe" in text
