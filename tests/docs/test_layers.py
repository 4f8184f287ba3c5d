# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What import-linter's contracts don't say of the rooms inside the collection."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import links
from tests.docs.tables import rooms

REPOSITORY = links.REPOSITORY
CORE = links.LIBRARY / "_core"
READS = {"open", "print", "input", "exec", "eval"}
ROOTS = (
    "changelogs",
    "docs",
    "files",
    "meta",
    "molecule",
    "playbooks",
    "plugins",
    "roles",
    "tests",
)


@pytest.mark.parametrize(
    "path", sorted(CORE.rglob("*.py")), ids=lambda one: str(one.relative_to(CORE))
)
def test_the_core_does_no_io(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in READS
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("urllib"):
            assert node.module == "urllib.parse"  # text alone


@pytest.mark.parametrize(
    "path", sorted(CORE.rglob("*.py")), ids=lambda one: str(one.relative_to(CORE))
)
def test_the_core_is_the_standard_library_and_itself(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = {one.name.partition(".")[0] for one in node.names}
            assert names <= set(sys.stdlib_module_names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            depth = len(path.relative_to(CORE).parts)
            assert node.level <= depth, "it climbs out of the core"
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in sys.stdlib_module_names


def test_the_daemon_has_links_to_what_it_imports_and_to_nothing_else() -> None:
    assert links.there() == links.wanted(), "run make links"
    files = {one for one in links.SHARED.rglob("*.py") if not one.is_symlink()}
    assert {one.name for one in files} == {"__init__.py"}


def test_no_file_is_too_long() -> None:
    for folder in ("plugins", "files", "tests", "roles"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            if "build" not in path.parts:
                assert len(path.read_text().splitlines()) <= 400, path


def test_the_page_draws_the_rooms_as_the_contracts_have_them() -> None:
    assert rooms.shown() == rooms.picture(), "run make docs-tables"
    assert [one for row in rooms.layers("rooms") for one in row] == [
        *("_capability", "_host", "_nvml", "_core")
    ]


def test_no_folder_is_crowded() -> None:
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *ROOTS)
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    there = {name for name in done.stdout.split("\0") if name and (REPOSITORY / name).exists()}
    fragments = "changelogs/fragments/"  # they have to lie side by side, until a release takes them
    count = Counter(str(Path(name).parent) for name in there if not name.startswith(fragments))
    assert {folder: number for folder, number in count.items() if number > 15} == {}
