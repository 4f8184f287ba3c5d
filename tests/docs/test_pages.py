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

LONGEST = 150  # lines of a page for users: one task
HEADLESS = re.compile(r"^\|[ |]*\|\n\|[ :|-]+\|\n(.*)$", re.MULTILINE)
# What one looks up rather than reads: a map of pages, all variables, all options of modules.
TABLES = ("docs/index.md",)
LISTS = ("docs/variables.md", "docs/reference/module-options.md", "docs/migration/tables/")
# Is about nothing else than what can go wrong.
TROUBLE = "docs/troubleshooting.md"
# Where users look for it: at the end of a page, a step out of each thing that they see.
WRONG = re.compile(
    r"^## What can go wrong\n\n\| You see \| Do \|\n\| --- \| --- \|\n(?:\|.*\|\n){2,}\n## See also$",
    re.MULTILINE,
)
# Folders of pages that are not for users, and may be as long as they have to.
OTHERS = ("docs/evidence/", "docs/development/")
# Pages of evidence, and how many tests each names at least.
EVIDENCE = {"device-plugin": 150, "node-labels": 60, "mps": 50, "driver": 80, "security": 19}
EVIDENCE |= {"container-runtimes": 3, "container-toolkit": 3, "driver/releases": 7}


def wrong(page: Path) -> Iterator[str]:
    """Yield what is wrong with a page, each with what it is about."""
    name, text = pages.name(page), page.read_text()
    evidence = name.startswith("docs/evidence/")
    for_users = name.startswith("docs/") and not name.startswith(OTHERS)
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
    if for_users:
        yield from wrong_form(name, text)


def wrong_examples(page: Path) -> Iterator[str]:
    """Yield names that look like a variable and are none; tests/docs/examples carries examples out."""
    for one in examples.examples(page):
        for name, nearest in examples.unknown(one.data).items():
            yield f"example {one.number} names {name}, which is no variable; the nearest is {nearest}"


def wrong_form(name: str, text: str) -> Iterator[str]:
    """Yield what keeps a page for users from being the page of one task."""
    yield from [] if name in TABLES else wrong_beginning(text)
    yield from [] if name.startswith(LISTS) else wrong_length(text)
    if name not in TABLES and not re.search(r"^## See also\n\n- ", text, re.MULTILINE):
        yield "it does not say at its end what to see also"
    if name not in (*TABLES, TROUBLE) and not name.startswith(LISTS) and not WRONG.search(text):
        yield "it does not say before that, by what one sees, what can go wrong and what to do"


def wrong_beginning(text: str) -> Iterator[str]:
    """Yield what keeps a page from beginning with a task, an example and its result, before its first part."""
    title, _empty, first, *_rest = text.splitlines()
    if not title.startswith("# "):
        yield "it does not begin with its title"
    if not first.startswith("Task: "):
        yield f"no task comes first, but {first!r}"
    begin = re.split(r"^## ", pages.FENCED.sub("```", text), maxsplit=1, flags=re.MULTILINE)[0]
    _before, example, result = begin.partition("```")
    if not example:
        yield "there is no example before its first part"
    elif not result.replace("```", "").strip():
        yield "nothing says what its example results in"


def wrong_length(text: str) -> Iterator[str]:
    """Yield how much too long a page for users is."""
    if (lines := len(text.splitlines())) > LONGEST:
        yield f"it has {lines} lines, and no page for users more than {LONGEST}: split it by task"


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("# Title\n\nTask: see.\n\n```console\n$ true\n```\n\nIt is seen.\n", 0),
        ("# Title\n\nTask: see.\n\n```console\n$ true\n```\n\n## More\n\nText.\n", 1),
        ("# Title\n\nTask: see.\n\n## An example\n\n```console\n$ true\n```\n\nSeen.\n", 1),
        ("## Title\n\n| a |\n", 3),
    ],
)
def test_a_beginning_without_a_task_an_example_or_its_result_is_seen(
    text: str, number: int
) -> None:
    assert len(list(wrong_beginning(text))) == number


HEAD = "## What can go wrong\n\n| You see | Do |\n| --- | --- |\n"


@pytest.mark.parametrize(
    ("part", "right"),
    [
        (f"{HEAD}| a | b |\n| c | d |\n\n", True),
        (f"{HEAD}| a | b |\n\n", False),
        (f"{HEAD}| a | b |\n| c | d |\n\n## More\n\n", False),
        ("## What can go wrong\n\nA lot.\n\n", False),
        ("", False),
    ],
)
def test_a_page_that_does_not_say_what_can_go_wrong_is_seen(part: str, right: bool) -> None:
    text = (
        f"# Title\n\nTask: see.\n\n```console\n$ true\n```\n\nIt is.\n\n{part}## See also\n\n- e\n"
    )
    assert (list(wrong_form("docs/page.md", text)) == []) is right
    assert list(wrong_form(TROUBLE, text)) == list(wrong_form("docs/variables.md", text)) == []


def test_a_page_that_is_too_long_is_seen() -> None:
    assert list(wrong_length("text\n" * LONGEST)) == []
    assert len(list(wrong_length("text\n" * (LONGEST + 1)))) == 1
