# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The commands of the pages name playbooks, variables, tags, modules and options that there are."""

from __future__ import annotations

import shlex

import pytest

from tests.docs.tables import commands, pages

FOUND = [
    (pages.name(page), " ".join(words), words)
    for page in pages.pages()
    for words in commands.words(page.read_text())
]


def test_there_are_commands() -> None:
    assert len(FOUND) > 50


@pytest.mark.parametrize(("page", "words"), [(one, words) for one, _text, words in FOUND])
def test_a_command_names_what_there_is(page: str, words: list[str]) -> None:
    assert commands.wrong(words) == [], page


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("ansible-playbook gpu.node.gpu_nods", ["gpu_nods"]),
        ("ansible-playbook gpu.node.mig -e mig_selectd=half", ["mig_selectd"]),
        ("ansible-playbook gpu.node.mig -e '{mig_selectd: half}'", ["mig_selectd"]),
        ("ansible-playbook gpu.node.gpu_nodes --tags driver,runtim", ["runtim"]),
        ("ansible gpu_nodes -m gpu.node.mig -a 'selected=half selectd=x'", ["selectd"]),
        ("ansible gpu_nodes -m gpu.node.mig -a 'selected=half' --check", []),
    ],
)
def test_the_check_sees_what_is_not_there(line: str, wrong: list[str]) -> None:
    assert commands.wrong(shlex.split(line)) == wrong
