# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The links to files of the library: those that the device plugin or gpu_cluster imports, and what these import.

Links to folders fail ansible-test, so there is one for each file. ``python tests/links.py`` makes them anew.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import DAEMON_SOURCES, REPOSITORY, SOURCES

LIBRARY = REPOSITORY / "plugins/module_utils"
SHARED = DAEMON_SOURCES / "gpu_plugin/_shared"


def wanted() -> set[Path]:
    """Return the library's files that the packages need, relative to the library."""
    found: set[Path] = set()
    due = {name for path in _own() for name in _shared(path)}
    while due:
        path = due.pop()
        found.add(path)
        due |= set(_relative(path)) - found
    return found


def there() -> set[Path]:
    """Return the links that there are, relative to their folder. Those that lead elsewhere don't count."""
    links = (path for path in SHARED.rglob("*.py") if path.is_symlink())
    return {
        path.relative_to(SHARED)
        for path in links
        if path.resolve() == LIBRARY / path.relative_to(SHARED)
    }


def make() -> None:
    """Make the links that are wanted, with a package around each, and remove all others."""
    for path in SHARED.rglob("*.py"):
        if path.is_symlink():
            path.unlink()
    for path in wanted():
        link = SHARED / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(LIBRARY / path, link.parent))
        for folder in link.parents:
            if SHARED not in (folder, *folder.parents):
                break
            (folder / "__init__.py").touch()
    for folder in sorted((one for one in SHARED.rglob("*") if one.is_dir()), reverse=True):
        if [one.name for one in folder.iterdir()] == ["__init__.py"]:
            (folder / "__init__.py").unlink()
            folder.rmdir()


def _own() -> Iterator[Path]:
    own = (path for folder in SOURCES for path in folder.rglob("*.py"))
    return (path for path in own if SHARED not in path.parents)


def _shared(path: Path) -> Iterator[Path]:
    """Return what one of the packages' own files imports of the library."""
    for node in _imports(path):
        _before, found, after = f".{node.module or ''}.".partition("._shared.")
        if found:
            yield from _files(Path(*after.strip(".").split(".")), node)


def _relative(path: Path) -> Iterator[Path]:
    """Return what a file of the library imports of it."""
    for node in _imports(LIBRARY / path):
        if node.level:
            folder = path.parents[node.level - 1]
            yield from _files(folder.joinpath(*(node.module or "").split(".")), node)


def _imports(path: Path) -> Iterator[ast.ImportFrom]:
    tree = ast.parse(path.read_text())
    return (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))


def _files(module: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Return the file of a module, or those of the modules that are imported from a package."""
    if (LIBRARY / module).is_dir():
        yield from (module / f"{name.name}.py" for name in node.names)
    else:
        yield module.with_name(f"{module.name}.py")


if __name__ == "__main__":
    make()
