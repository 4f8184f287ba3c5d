# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names of the product are nouns and verbs of the field, and docstrings begin with what is returned or done."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPOSITORY

# Words that say nothing of what they hold: a reader has to keep in mind what that was.
BANNED = frozenset(
    (
        *("one", "ones", "found", "its", "said", "told", "given", "kept", "wanted", "done", "now"),
        *("rest", "same", "words", "others", "some", "way", "thing", "what", "who", "by", "among"),
    )
)


def product() -> Iterator[Path]:
    """Yield the files of the product that were written by hand."""
    for folder in ("plugins", "files"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if not path.is_symlink() and "_generated" not in path.parts and "_pb2" not in path.name:
                yield path


def banned_names(tree: ast.Module) -> Iterator[str]:
    """Yield the banned names that a file binds."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            names = [node.name, *(argument.arg for argument in every)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [node.attr]
        elif isinstance(node, ast.alias):
            names = [node.asname or ""]
        yield from (name for name in names if name.strip("_") in BANNED)


def test_names_say_what_they_hold() -> None:
    names = {str(path): sorted(banned_names(ast.parse(path.read_text()))) for path in product()}
    assert {path: banned for path, banned in names.items() if banned} == {}


def misplaced_errors(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings that name an error anywhere but after "Raises:", or there without its condition."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    for docstring in filter(None, docstrings):
        text, _heading, section = docstring.partition("\nRaises:\n")
        entries = re.findall(r"^    (\w+): (\w+)", section, re.M)
        if re.search(r"\b[A-Z]\w*Error: ", text) or any(word != "if" for _name, word in entries):
            yield docstring


def test_errors_are_in_sections_with_their_conditions() -> None:
    bad = {
        str(path.relative_to(REPOSITORY)): list(misplaced_errors(ast.parse(path.read_text())))
        for path in product()
    }
    assert {path: docstrings for path, docstrings in bad.items() if docstrings} == {}


def test_error_without_a_section_or_a_condition_is_found() -> None:
    good = 'def f():\n    """Return.\n\n    Raises:\n        NodeError: if it is gone.\n    """\n'
    assert list(misplaced_errors(ast.parse(good))) == []
    assert list(misplaced_errors(ast.parse(good.replace("if it is", "it is")))) != []
    assert list(misplaced_errors(ast.parse('"""Return it. NodeError: it is gone."""'))) != []


def test_docstrings_do_not_tell_whether() -> None:
    assert [str(path) for path in product() if '"""Tell ' in path.read_text()] == []


def test_a_name_without_a_noun_is_found() -> None:
    source = "def told(now, *, pods):\n    self._kept = [one for one in pods]\n"
    assert sorted(banned_names(ast.parse(source))) == ["_kept", "now", "one", "told"]


def test_commit_subjects_have_a_scope_and_fit_a_line() -> None:
    command = ["git", "log", "-20", "--no-merges", "--format=%s"]
    log = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    subjects = log.stdout.splitlines()
    form = re.compile(r"[a-z][\w, -]*: \S.*")
    assert [line for line in subjects if len(line) > 72 or not form.fullmatch(line)] == []
