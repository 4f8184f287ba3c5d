# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The dynamic linker's libraries, from the output of ldconfig, and where links lead."""

from __future__ import annotations

import posixpath
import re
import typing as t

MAX_LINKS = 40  # as the kernel
ABIS = ("x86-64", "AArch64")
COMPAT32_ABIS = ("",)  # ldconfig names none for 32-bit x86
COMMON_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
# Those of Debian and of the RPM distributions for 32-bit programs.
COMPAT32_FOLDERS = ("/usr/lib/i386-linux-gnu", "/usr/lib")

Pair = t.Tuple[str, str]


def parse_ldconfig(text: str, abis: t.Sequence[str] = ABIS) -> t.List[Pair]:
    """Return (name, path) of the libraries for some ABIs from ``ldconfig -p``."""
    result = []
    for line in text.splitlines():
        match = re.match(r"\s+(\S+) \([^,)]*(?:,\s*([^,)]*))?[^)]*\) => (/.*)", line)
        if match and (match[2] or "").partition("OS ABI")[0] in abis:
            result.append((match[1], match[3].strip()))
    return result


def default_folder(cache: t.Iterable[Pair]) -> t.Optional[str]:
    """Return the distribution's own library folder, which has the C library."""
    for name, path in cache:
        if name == "libc.so.6":
            folder = posixpath.dirname(path)
            return folder if folder.startswith("/usr/") else f"/usr{folder}"
    return None


def search_folders(cache: t.Iterable[Pair]) -> t.List[str]:
    """Return the folders where packages of the driver keep libraries."""
    own = default_folder(cache)
    folders = [own] if own else list(COMMON_FOLDERS)
    return [f"{folder}{sub}" for folder in folders for sub in ("", "/nvidia/current", "/nvidia")]


def compat32_folders(cache: t.Iterable[Pair]) -> t.List[str]:
    """Return the folders where they keep libraries for 32-bit programs; ``cache`` has the node's own libraries."""
    debian, rpm = COMPAT32_FOLDERS
    folders = [f"{debian}{sub}" for sub in ("", "/nvidia/current", "/nvidia")]
    return folders if default_folder(cache) == rpm else [*folders, rpm]


def resolve(path: str, readlink: t.Callable[[str], t.Optional[str]]) -> t.Optional[str]:
    """Follow all links on a path, also those of folders; None if they go in circles.

    Absolute targets are resolved from the root of ``readlink``, so a folder can stand for /.
    """
    todo, resolved, links = path.split("/")[::-1], [""], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            resolved = resolved[:-1] or [""]
            continue
        target = readlink("/".join([*resolved, part]))
        if target is None:
            resolved.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        if target.startswith("/"):
            resolved = [""]
        todo += target.split("/")[::-1]
    return "/".join(resolved) or "/"
