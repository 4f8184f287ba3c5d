# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's libraries: which they are, and where containers look for them."""

from __future__ import annotations

import itertools
import posixpath
import re
import typing as t

MAX_LINKS = 40  # as the kernel
ABIS = ("x86-64", "AArch64")
COMMON_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
# Names that programs open although no package of the driver has to have them.
ALIASES = {
    "libcuda": ["libcuda.so"],
    "libnvidia-opticalflow": ["libnvidia-opticalflow.so"],
    "libGLX_nvidia": ["libGLX_indirect.so.0"],
}
# The one library of the driver that has a version of its own.
OWN_VERSION = "libnvidia-nvvm70.so."

Pair = t.Tuple[str, str]


class Library(t.NamedTuple):
    """A library: its file, links resolved, and all names that lead to it, its own included."""

    path: str
    names: t.Tuple[str, ...]


def parse_ldconfig(text: str) -> t.List[Pair]:
    """Return (name, path) of the 64-bit libraries from ``ldconfig -p``."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(\S+) \(([^)]*)\) => (/.*)", line)
        if match and any(abi in match[2].split(",") for abi in ABIS):
            found.append((match[1], match[3].strip()))
    return found


def default_folder(cache: t.Iterable[Pair]) -> t.Optional[str]:
    """Return the distribution's own library folder: the one that has the C library."""
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


def is_driver_library(name: str, version: str) -> bool:
    """Tell whether a file's name is that of a library of this version of the driver."""
    own = name.startswith(OWN_VERSION) or name.endswith(f".so.{version}")
    return name.startswith("lib") and own


def stem(name: str) -> str:
    """Return a library's name without what follows the dot: libcuda of libcuda.so.1."""
    return name.partition(".so")[0]


def resolve(path: str, readlink: t.Callable[[str], t.Optional[str]]) -> t.Optional[str]:
    """Follow all links on a path, those of folders too; None where they go in circles.

    Absolute targets start again at the top that ``readlink`` knows, so a folder can stand for /.
    """
    todo, done, links = path.split("/")[::-1], [""], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1] or [""]
            continue
        target = readlink("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        if target.startswith("/"):
            done = [""]
        todo += target.split("/")[::-1]
    return "/".join(done) or "/"


def collect(found: t.Iterable[Pair]) -> t.List[Library]:
    """Gather (file, name) pairs into libraries, in the order in which the files come up first."""
    names: t.Dict[str, t.Set[str]] = {}
    for path, name in found:
        names.setdefault(path, {posixpath.basename(path)}).add(name)
    for path, known in names.items():
        known.update(ALIASES.get(stem(posixpath.basename(path)), ()))
    return [Library(path, tuple(sorted(known))) for path, known in names.items()]


def under_all_names(libraries: t.Iterable[Library], folders: t.Iterable[str]) -> t.List[Pair]:
    """Return (host, container) paths that show each library under each of its names in each folder.

    A mounted file is one and the same library to the loader under all of its names, so this does
    what links would do, in folders where the loader looks without a cache.
    """
    placed: t.Dict[str, str] = {}
    for folder, library in itertools.product(folders, libraries):
        for name in library.names:
            placed.setdefault(f"{folder.rstrip('/')}/{name}", library.path)
    return sorted((host, container) for container, host in placed.items())


def in_place(libraries: t.Iterable[Library]) -> t.Tuple[t.List[Pair], t.List[Pair]]:
    """Return (host, container) paths where each library keeps its place, and (target, link) pairs."""
    mounts: t.List[Pair] = []
    links: t.Dict[str, str] = {}
    for library in libraries:
        folder, own = posixpath.split(library.path)
        mounts.append((library.path, library.path))
        for name in library.names:
            if name != own:
                links.setdefault(f"{folder}/{name}", own)
    return sorted(mounts), sorted((target, link) for link, target in links.items())
