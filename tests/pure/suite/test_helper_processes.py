# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tests start their processes in one place, which waits until they are ready, and until they are gone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY, TESTS

PLACE = TESTS / "support/helper_process.py"


def starts(tree: ast.Module) -> list[int]:
    """Return the lines on which a module starts a process that it does not wait for."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and "Popen" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    ]


def stands_alone(tree: ast.Module) -> bool:
    """Return whether a module is a program that runs without tests/ around it, as one that stands in for another.

    It imports nothing of the tests, and is run by its path.
    """
    modules = {
        getattr(node, "module", None) or name.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    is_program = any(
        isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body
    )
    return is_program and not any(name.split(".")[0] in ("tests", "pytest") for name in modules)


def refused(text: str) -> list[int]:
    """Return the lines on which a module starts a process and should not."""
    tree = ast.parse(text)
    return [] if stands_alone(tree) else starts(tree)


def test_processes_are_started_in_one_place() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != PLACE and "build" not in path.parts
        for line in refused(path.read_text())
    ]
    assert not found, "start it by tests/support/helper_process.py"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import subprocess\nsubprocess.Popen(['true'])", [2]),
        ("from subprocess import Popen\nwith Popen(['true']) as process: pass", [2]),
        ("import subprocess\nprocess: subprocess.Popen[str]", []),
        ("import subprocess\nif __name__ == '__main__': subprocess.Popen(['true'])", []),
        ("import tests.support\nPopen()\nif __name__ == '__main__': pass", [2]),
        ("from tests import support\nPopen()\nif __name__ == '__main__': pass", [2]),
    ],
)
def test_a_start_is_told_from_what_is_none(text: str, lines: list[int]) -> None:
    assert refused(text) == lines


def test_the_one_place_exists() -> None:
    assert "subprocess.Popen" in Path(PLACE).read_text()
