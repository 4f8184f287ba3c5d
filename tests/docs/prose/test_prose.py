# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The prose linter finds what its rules are for, and nothing in what people read here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.environments.needed import made
from tests.support.paths import REPOSITORY

RULES = yaml.safe_load((REPOSITORY / "tests/docs/prose/rules.yml").read_text())
# For each rule a sentence that breaks it, and one that says the same.
SENTENCES = {
    "plain words": ("It cannot start.", "It can't start."),
    "tone": ("Simply run it.", "Run it."),
    "present tense": ("The node will reboot.", "The node reboots."),
    "plain verbs": ("The node is to be\ndrained.", "Drain the node."),
    "plain relations": ("Put it beside the file.", "Put it next to the file."),
    "the field's words": ("The daemon waits.", "The MPS control daemon waits."),
    "active voice": ("It is read by the kubelet.", "The kubelet reads it."),
    "serial comma": ("For apt, dnf or zypper.", "For apt, dnf, or zypper."),
    "exclamation mark": ("It works!", "It works."),
    "long sentence": ("So " + "long, " * 40 + "a sentence.", "So short a sentence. " * 30),
    "redundancy": ("It has past history.", "It has history."),
    "lexical_illusions": ("It reads the the file.", "It reads the file."),
}


def linted(*files: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter over some files, or over all that it is for."""
    words = [made("prose") / "bin/python", "-m", "tests.docs.prose.lint", *files]
    return subprocess.run(words, cwd=REPOSITORY, check=False, capture_output=True, text=True)


def findings(path: Path, text: str) -> list[str]:
    """Return what the linter has found in a file, each as its line and rule."""
    path.write_text(text)
    lines = linted(path).stderr.splitlines()
    return [":".join(one.removeprefix(f"{path}:").split(":")[:2]) for one in lines]


def test_each_rule_finds_its_sentence_and_leaves_the_better_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wrong = findings(page, "\n\n".join(one for one, _better in SENTENCES.values()))
    assert [next(name for name in SENTENCES if f": {name}" in one) for one in wrong] == [*SENTENCES]
    assert findings(page, "\n\n".join(better for _wrong, better in SENTENCES.values())) == []
    assert {*RULES["instead"], *RULES["forms"]} < SENTENCES.keys()


@pytest.mark.parametrize(
    "text",
    [
        "```\nit cannot work\n```",
        "`cannot` and [text](cannot.md)",
        "<!-- cannot -->",
        "| `a` | `b` |\n| --- | --- |\n| x, y | z |",
    ],
)
def test_code_and_addresses_are_no_prose(tmp_path: Path, text: str) -> None:
    assert findings(tmp_path / "page.md", text) == []


def test_a_heading_is_in_sentence_case(tmp_path: Path) -> None:
    text = "# Set Up Kubernetes\n\nText.\n\n# Set up Kubernetes\n"
    assert findings(tmp_path / "page.md", text) == ["1: sentence case"]


def test_a_finding_has_its_line_within_a_paragraph_a_table_a_description_and_a_changelog(
    tmp_path: Path,
) -> None:
    page = "A line,\nand one that cannot\nbe.\n\n| A |\n| --- |\n| b |\n| it cannot |\n"
    assert findings(tmp_path / "page.md", page) == ["2: plain words", "8: plain words"]
    options = "state:\n  default: cannot\n  description:\n    - Good.\n    - It cannot.\n"
    assert findings(tmp_path / "options.yml", options) == ["5: plain words"]
    module = f'"""It cannot."""\nX = "cannot"\nDOCUMENTATION = r"""\n{options}"""\n'
    assert findings(tmp_path / "module.py", module) == ["8: plain words"]
    fragment = tmp_path / "fragments/one.yml"
    fragment.parent.mkdir()
    assert findings(fragment, "bugfixes:\n  - Good.\n  - It cannot.\n") == ["3: plain words"]


def test_what_people_read_here_has_no_finding() -> None:
    done = linted()
    assert (done.returncode, done.stderr) == (0, "")
