# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's libraries: which files they are, by which names, and where containers look for them."""

from __future__ import annotations

import itertools
import posixpath
import re
import typing as t

from .capabilities import Chosen, aliases

MAX_LINKS = 40  # as the kernel
ABIS = ("x86-64", "AArch64")
COMPAT32_ABIS = ("",)  # of 32-bit x86 nothing is said
COMMON_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
# Those of Debian and of the RPM distributions for 32-bit programs.
COMPAT32_FOLDERS = ("/usr/lib/i386-linux-gnu", "/usr/lib")
AARCH64_LOADER = "/lib/ld-linux-aarch64.so.1"
# Libraries of the driver that have a version of their own; programs without a display do without the latter.
OWN_VERSION = re.compile(r"libnvidia-nvvm70\.so\..")
PLATFORMS = re.compile(r"libnvidia-egl-(gbm|wayland2?|xcb|xlib)\.so\.\d+\.\d[\d.]*")

Pair = t.Tuple[str, str]


class Library(t.NamedTuple):
    """A library: its file, links resolved, and all names that lead to it, its own included."""

    path: str
    names: t.Tuple[str, ...]


def parse_ldconfig(text: str, abis: t.Sequence[str] = ABIS) -> t.List[Pair]:
    """Return (name, path) of the libraries for some ABIs from ``ldconfig -p``."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(\S+) \([^,)]*(?:,\s*([^,)]*))?[^)]*\) => (/.*)", line)
        if match and (match[2] or "").partition("OS ABI")[0] in abis:
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


def compat32_folders(cache: t.Iterable[Pair]) -> t.List[str]:
    """Return the folders where they keep those for 32-bit programs; ``cache`` is that of the others."""
    debian, rpm = COMPAT32_FOLDERS
    found = [f"{debian}{sub}" for sub in ("", "/nvidia/current", "/nvidia")]
    return found if default_folder(cache) == rpm else [*found, rpm]


def image_folders(own: str, *, aarch64: bool) -> t.Tuple[str, ...]:
    """Return where the loaders of images look: the folder of the node's distribution, and that of the others.

    Those of the Debian family look in the multiarch folder and not in lib64, those of the RPM
    distributions the other way round.
    """
    return tuple(dict.fromkeys((own, COMMON_FOLDERS[aarch64], COMMON_FOLDERS[2])))


def is_driver_library(name: str, version: str) -> bool:
    """Tell whether a file's name is that of a library of this version of the driver, or of a part with its own."""
    if OWN_VERSION.match(name) or PLATFORMS.fullmatch(name):
        return True
    return name.startswith("lib") and name.endswith(f".so.{version}")


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


def collect(found: t.Iterable[Pair], capabilities: Chosen) -> t.List[Library]:
    """Gather (file, name) pairs into libraries, in the order in which the files come up first."""
    names: t.Dict[str, t.Set[str]] = {}
    for path, name in found:
        names.setdefault(path, {posixpath.basename(path)}).add(name)
    for path, known in names.items():
        known.update(aliases(stem(posixpath.basename(path)), capabilities))
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
                links.setdefault(f"{folder}/{name}", "../" * name.count("/") + own)
    return sorted(mounts), sorted((target, link) for link, target in links.items())
