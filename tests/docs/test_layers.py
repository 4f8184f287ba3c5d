# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What import-linter's contracts don't say of the rooms inside the collection."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from tests import links
from tests.docs.tables import rooms

REPOSITORY = links.REPOSITORY
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


# Modules that look, work elsewhere than on the node, or write records of their own, whose locks are held for one write.
WITHOUT_THE_LOCK = {
    *("bundle", "cluster_objects", "drain", "gpu_info", "plan", "preflight"),
    *("validate", "validate_pods", "gpu_evidence", "quarantine", "repair"),
}


def test_modules_that_change_a_node_hold_its_lock() -> None:
    without = set()
    for path in sorted((REPOSITORY / "plugins/modules").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            runs = isinstance(node, ast.Call) and ast.unparse(node.func) == "run_capability"
            if runs and not any(word.arg == "changes_node" for word in node.keywords):
                without.add(path.stem)
    assert without == WITHOUT_THE_LOCK


def test_what_decides_does_no_io() -> None:
    """What it imports is import-linter's: here are functions that need no import, and the half of urllib that asks."""
    found = []
    for path in sorted(links.LIBRARY.rglob("*.py")):
        if {"_machine", "machine"} & {*path.parts} or path.stem in ("capability", "machine"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            reads = isinstance(node, ast.Call) and ast.unparse(node.func) in READS
            asks = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("urllib")
            if reads or (asks and node.module != "urllib.parse"):
                found.append(
                    f"{path.relative_to(links.LIBRARY)}:{node.lineno}: {ast.unparse(node)}"
                )
    assert found == []


def test_the_daemon_has_links_to_what_it_imports_and_to_nothing_else() -> None:
    assert links.there() == links.wanted(), "run make links"
    files = {one for one in links.SHARED.rglob("*.py") if not one.is_symlink()}
    assert {one.name for one in files} == {"__init__.py"}


def test_no_file_is_too_long() -> None:
    for folder in ("plugins", "files", "tests", "roles"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            if "build" not in path.parts:
                assert len(path.read_text().splitlines()) <= 600, path


def test_the_page_draws_the_rooms_as_the_contracts_have_them() -> None:
    assert rooms.shown() == rooms.picture(), "run make docs-tables"


def test_what_make_runs_of_the_tests_is_a_module_that_finds_the_others() -> None:
    assert re.findall(r"python\)? tests/\S+\.py", (REPOSITORY / "Makefile").read_text()) == []


def test_no_folder_is_crowded() -> None:
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *ROOTS)
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    there = {name for name in done.stdout.split("\0") if name and (REPOSITORY / name).exists()}
    # Where Ansible wants files side by side, and where a generator writes them.
    flat = ("changelogs/fragments/", "plugins/modules/", "plugins/doc_fragments/")
    flat += ("plugins/module_utils/_generated/",)
    count = Counter(str(Path(name).parent) for name in there if not name.startswith(flat))
    assert {folder: number for folder, number in count.items() if number > 15} == {}
