# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who may know whom inside the collection."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

UTILS = Path(__file__).resolve().parents[2] / "plugins/module_utils"
SHARED = Path(__file__).resolve().parents[2] / "files/gpu_plugin/src/gpu_plugin/_shared"
ALLOWED = {
    "_core": {"_core", "_nvml"},
    "_nvml": {"_nvml", "_core", "pynvml"},
    "_host": {"_host", "_core", "tomlkit"},
    "_module": {"_module", "_host", "_nvml", "_core", "ansible"},
}
NO_IO = {"os", "subprocess", "socket", "ctypes", "shutil", "tempfile"}


def imported(path: Path) -> set[str]:
    """Return what a file imports: rooms of the library, or top-level packages."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            room = (node.module or "").split(".")[0] if node.level == 2 else path.parent.name
            found |= {room} if room else {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize(
    "path", sorted(UTILS.glob("*/*.py")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_file_imports_only_what_its_room_may_know(path: Path) -> None:
    strange = imported(path) - ALLOWED[path.parent.name] - set(sys.stdlib_module_names)
    assert not strange


@pytest.mark.parametrize("path", sorted((UTILS / "_core").glob("*.py")), ids=lambda path: path.name)
def test_the_core_does_no_io(path: Path) -> None:
    assert not imported(path) & NO_IO


def test_the_core_knows_of_nvml_only_its_values() -> None:
    for path in (UTILS / "_core").glob("*.py"):
        assert "_nvml.real" not in path.read_text()


def test_shared_files_are_links_to_the_library() -> None:
    for path in SHARED.glob("_*/*.py"):
        if path.name != "__init__.py":
            assert path.is_symlink()
            assert path.resolve() == UTILS / path.parent.name / path.name


def test_no_file_is_too_long() -> None:
    root = UTILS.parents[1]
    for folder in ("plugins", "files", "tests", "roles"):
        for path in (root / folder).rglob("*.py"):
            if "build" not in path.parts:
                assert len(path.read_text().splitlines()) <= 400, path
