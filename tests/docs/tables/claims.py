# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the pages claim to be shown by a test, and whether that test could tell that it is not so."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
CLAIM = re.compile(r"`(test_\w+)::(\w+)`")
EXPECTS = ("pytest.raises", "pytest.warns", "pytest.fail")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def claims(page: str) -> list[tuple[str, str]]:
    """Return the files and tests that a text names, as ``file::test`` in backticks."""
    return sorted(set(CLAIM.findall(page)))


def rows(page: str) -> Iterator[str]:
    """Yield the rows of each table that says in its last column what they are shown by."""
    shown = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not line.startswith("|"):
            shown = False
        elif shown and set(cells[-1]) - set("-: "):
            yield line
        shown = shown or cells[-1:] == ["shown by"]


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    paths = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def refused(file: str, test: str, tests: Path = ROOT / "tests") -> str:
    """Return why a test shows nothing, or an empty text."""
    found = [tree for path in tests.rglob(f"{file}.py") if (tree := parsed(path))]
    if not found:
        return f"there is no {file}.py"
    here = [(tree, one) for tree in found for one in functions(tree) if one.name == test]
    if not here:
        return f"{file}.py has no {test}"
    if len(here) > 1:
        return f"{len(here)} tests are named {file}::{test}"
    ((tree, function),) = here
    if not test.startswith("test_"):
        return f"pytest does not collect {test}"
    if skipped(tree, function):
        return f"{test} is always skipped"
    own = {one.name for one in functions(tree) if asserts(one)}
    if not asserts(function) and not called(function) & (own | asserting(tests)):
        return f"{test} asserts nothing"
    return ""


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(path.read_text())


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield the functions of a module and of its classes, but none inside of another."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try):
            yield from functions(node)


def skipped(tree: ast.Module, function: Function) -> bool:
    """Return whether a test never runs: marked so itself, by its module, or by its first statement."""
    marks = [ast.unparse(one) for one in function.decorator_list]
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks.append(ast.unparse(node.value))
    never = [re.search(r"pytest\.mark\.(skip|xfail)\b", mark) for mark in marks]
    statements = [one for one in function.body if not isinstance(one, ast.Import | ast.ImportFrom)]
    first = [ast.unparse(one) for one in [*statements[:1], *tree.body] if isinstance(one, ast.Expr)]
    return any(never) or any(one.startswith("pytest.skip(") for one in first)


def asserts(function: Function) -> bool:
    """Return whether a function's own body has something that can fail."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EXPECTS:
            return True
    return False


def called(function: Function) -> set[str]:
    """Return the names of what a function calls, methods by their own name."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {one.id for one in calls if isinstance(one, ast.Name)}
    return names | {one.attr for one in calls if isinstance(one, ast.Attribute)}


@functools.cache
def asserting(tests: Path) -> frozenset[str]:
    """Return the names of helpers that assert, themselves or by another, as each namesake does."""
    helpers: dict[str, list[Function]] = {}
    for path in tests.rglob("*.py"):
        for one in functions(parsed(path)):
            if not one.name.startswith("test_"):
                helpers.setdefault(one.name, []).append(one)
    found: frozenset[str] = frozenset()
    # One may stand before another of its own name, with a default of its own.
    some = {name for name, all_of in helpers.items() if any(map(asserts, all_of))}
    while True:
        more = {
            name
            for name, all_of in helpers.items()
            if all(asserts(one) or called(one) & (found | some & {name}) for one in all_of)
        }
        if found == more:
            return found
        found = frozenset(more)
