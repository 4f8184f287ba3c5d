# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each page is true: one test a page lists all that is wrong with it, and others see that the checks can tell."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.tables import claims, commands, examples, pages

FIRST = 40  # lines: about a screen
HEADLESS = re.compile(r"^\|[ |]*\|\n\|[ :|-]+\|\n(.*)$", re.MULTILINE)
# Tables that one looks up: a map of pages.
TABLES = ("docs/index.md",)
# Pages of evidence, and how many tests each names at least.
EVIDENCE = {"device-plugin": 150, "node-labels": 60, "mps": 50, "driver": 80, "security": 19}
EVIDENCE |= {"container-runtimes": 3, "container-toolkit": 3, "driver/releases": 7}


def wrong(page: Path) -> Iterator[str]:
    """Yield what is wrong with a page, each with what it is about."""
    name, text = pages.name(page), page.read_text()
    evidence = name.startswith("docs/evidence/")
    yield from (f"the link {one} leads nowhere" for one in pages.dead(page, text))
    yield from wrong_examples(page)
    for words in commands.words(text):
        yield from (f"{shlex.join(words)} names {one}" for one in commands.wrong(words))
    for file, test in claims.claims(text):
        why = (
            claims.refused(file, test) if evidence else "is named, which pages of evidence alone do"
        )
        yield from ([f"{file}::{test}: {why}"] if why else ())
    yield from (f"a table has no heading: {one}" for one in HEADLESS.findall(text))
    for row in claims.rows(text):
        yield from ([] if claims.claims(row) else [f"nothing shows {row}"])
    if name.startswith("docs/") and not evidence and name not in TABLES:
        yield from wrong_beginning(text)


def wrong_examples(page: Path) -> Iterator[str]:
    """Yield names that look like a variable and are none; tests/docs/examples carries examples out."""
    for one in examples.examples(page):
        for name, nearest in examples.unknown(one.data).items():
            yield f"example {one.number} names {name}, which is no variable; the nearest is {nearest}"


def wrong_beginning(text: str) -> Iterator[str]:
    """Yield what keeps a page from beginning with a task and an example."""
    title, _empty, first, *rest = text.splitlines()
    if not title.startswith("# "):
        yield "it does not begin with its title"
    if not (first[:1].isalpha() or first[:1] in "`*["):
        yield f"no sentence comes first, but {first!r}"
    if not any(one.lstrip().startswith("```") for one in [first, *rest][:FIRST]):
        yield f"there is no example within its first {FIRST} lines"


@pytest.mark.parametrize("page", pages.pages(), ids=pages.name)
def test_a_page_is_true(page: Path) -> None:
    assert list(wrong(page)) == []


def test_there_is_something_to_check() -> None:
    every = [one for page in pages.pages() for one in examples.examples(page)]
    assert len(every) > 60
    assert len([pair for one in every for pair in examples.settings(one.data)]) > 70
    texts = {pages.name(page): page.read_text() for page in pages.pages()}
    assert len([words for text in texts.values() for words in commands.words(text)]) > 50
    for page, least in EVIDENCE.items():
        assert len(claims.claims(texts[f"docs/evidence/{page}.md"])) >= least, page


def test_the_playbooks_of_the_pages_are_some_that_ansible_takes(tmp_path: Path) -> None:
    every = [one for page in pages.pages() for one in examples.examples(page)]
    plays = [one for one in every if examples.is_playbook(one.data)]
    assert len(plays) > 9
    names = [f"{one.page.replace('/', '-')}-{one.number}.yml" for one in plays]
    for name, one in zip(names, plays, strict=True):
        (tmp_path / name).write_text(one.text)
    words = ["ansible-playbook", "--syntax-check", "--inventory", "node-1,", *names]
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path, target: str, leads: bool) -> None:
    (tmp_path / "there.md").write_text("# One title\n\n```\n# in code\n```\n\n## One *title*\n")
    page = tmp_path / "page.md"
    text = f"# `Of` its own\n\n```\n[no](link.md)\n```\n\n[a link]({target})\n"
    page.write_text(text)
    assert (list(pages.dead(page, text)) == []) is leads


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ansible-playbook gpu.node.gpu_nods", ["gpu_nods"]),
        ("ansible-playbook gpu.node.mig -e mig_selectd=half", ["mig_selectd"]),
        ("ansible-playbook gpu.node.mig -e '{mig_selectd: half}'", ["mig_selectd"]),
        ("ansible-playbook gpu.node.gpu_nodes --tags driver,runtim", ["runtim"]),
        ("ansible gpu_nodes -m gpu.node.mig -a 'selected=half selectd=x'", ["selectd"]),
        ("ansible gpu_nodes -m gpu.node.mig -a 'selected=half' --check", []),
    ],
)
def test_a_command_that_names_what_is_not_there_is_seen(line: str, found: list[str]) -> None:
    assert commands.wrong(shlex.split(line)) == found


def test_an_example_that_is_wrong_is_seen() -> None:
    data: Any = {"vars": {"mig_selectd": "half", "mig_config": {"mig_x": 1}}}
    assert examples.unknown(data) == {"mig_selectd": ["mig_selected"]}
    assert examples.refused("container_runtime_name", "dockr")
    assert examples.refused("device_plugin_wait_timeout", "soon")


def test_a_table_without_a_heading_is_seen() -> None:
    assert HEADLESS.findall("|  | |\n| --- | --- |\n| a | b |\n") == ["| a | b |"]
    assert HEADLESS.findall("|  | Then |\n| --- | --- |\n| a | b |\n") == []


def test_a_beginning_without_a_task_or_an_example_is_seen() -> None:
    assert list(wrong_beginning("# Title\n\nTask: see.\n\n```console\n$ true\n```\n")) == []
    assert len(list(wrong_beginning("## Title\n\n| a |\n" + "text\n" * FIRST + "```\n"))) == 3
