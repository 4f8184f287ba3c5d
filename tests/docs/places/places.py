# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the code that runs as root opens what others than root may write, for docs/development/foreign-folders.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.support.paths import DAEMON_SOURCES, REPOSITORY

PAGE: Final = REPOSITORY / "docs/development/foreign-folders.md"
MARKS: Final = ("<!-- places: written by make docs-tables -->", "<!-- places: end -->")
LIBRARY: Final = REPOSITORY / "plugins/module_utils"


@dataclass(frozen=True)
class Place:
    """A place where others may write: an expression that names it in the code, and what bounds who reads it."""

    name: str
    pattern: re.Pattern[str]
    bound: str


# Patterns are searched for in the expressions of a function, as ast.unparse() writes them.
PLACES: Final = (
    Place(
        "the open files of a process, `/proc/<pid>/fd`",
        re.compile(r"/fd\b|'fd'"),
        "nothing is opened: a link is read, and a device known by its number, without asking a file server",
    ),
    Place(
        "what a process shows in `/proc/<pid>`",
        re.compile(r"f'/proc/\{|PROC / str\(|proc / str\(|\bproc\(host|/proc/self/mounts"),
        'services read 1 MiB of whole lines, and take more for "it may be"; modules read what the kernel bounds',
    ),
    Place(
        "the `/dev` of containers, `/proc/<pid>/root/dev`",
        re.compile(r"devices_in_dev\(|/root'"),
        "4,096 names of each of two folders in memory; no link is followed, and no server of a file system is asked",
    ),
    Place(
        "the `/dev/shm` of containers with a share by MPS",
        re.compile(r"names\.shm|self\._path\.iterdir|folders\.clear\("),
        "its size and number of files; cleared one level at a time, for 5 seconds at each check; no link is followed",
    ),
    Place(
        "the pipes of containers with a share by MPS",
        re.compile(r"names\.(pipe|ipc)\b"),
        "1 MiB and 64 files, read-only for containers unless `pipeAccess` says else; no link is followed",
    ),
    Place(
        "the kubelet's folders of logs (`/var/log/pods`, `/var/log/containers`)",
        re.compile(r"pods\.LOGS|pods\.CONTAINER_LOGS|logs\.iterdir"),
        "names of folders and links alone, which the kubelet makes",
    ),
    Place(
        "the folder that an operator names",
        re.compile(r"who_writes\("),
        "each folder above and each link on the way must be root's alone",
    ),
    Place(
        "locks",
        re.compile(
            r"(?:_host|\bhost|Host\(\))\.lock\(|locks\.locked\(|with _lock\(|instance_lock\.hold\("
        ),
        "files that root alone can open, by no link, with a time limit",
    ),
)


@cache
def functions() -> tuple[tuple[str, str], ...]:
    """Return each function of the library and the daemon, with its code."""
    return tuple((f"{path}:{name}", text) for path, tree in _trees() for name, text in each(tree))


def found() -> dict[Place, list[str]]:
    """Return the functions that name each place, such as ``_node/users/machine/users.py:gpu_users``."""
    return {
        place: sorted({name for name, text in functions() if place.pattern.search(text)})
        for place in PLACES
    }


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for root in (LIBRARY, DAEMON_SOURCES):
        for path in sorted(root.rglob("*.py")):
            if not path.is_symlink() and "build" not in path.parts:
                yield str(path.relative_to(root)), ast.parse(path.read_text())


def each(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield each function with its code, without docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from each(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield f"{inside}{node.name}", "\n".join(map(ast.unparse, body))


def table() -> str:
    """Return the table of the page."""
    rows = ["| Where others may write | What bounds it | Who looks there |", "| --- | --- | --- |"]
    for place, names in found().items():
        rows.append(
            f"| {place.name} | {place.bound} | {', '.join(f'`{name}`' for name in names)} |"
        )
    return "\n".join(rows)


def shown() -> str:
    """Return the table that the page has."""
    return PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0].strip()


def write() -> None:
    """Write the table into the page."""
    before, _table, after = PAGE.read_text().partition(MARKS[0])
    end = after.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{end}")


if __name__ == "__main__":
    write()
