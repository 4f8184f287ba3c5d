# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's libraries: which files they are, by which names, and where containers look for them."""

from __future__ import annotations

import itertools
import posixpath
import re
import typing as t

from .._base.linker import COMMON_FOLDERS, Pair
from .capabilities import Chosen, aliases

AARCH64_LOADER = "/lib/ld-linux-aarch64.so.1"
# Libraries of the driver that have a version of their own; programs without a display do without the latter.
OWN_VERSION = re.compile(r"libnvidia-nvvm70\.so\..")
PLATFORMS = re.compile(r"libnvidia-egl-(gbm|wayland2?|xcb|xlib)\.so\.\d+\.\d[\d.]*")


class Library(t.NamedTuple):
    """A library: its file, links resolved, and all names that lead to it, its own included."""

    path: str
    names: t.Tuple[str, ...]


def image_folders(own: str, *, aarch64: bool) -> t.Tuple[str, ...]:
    """Return where the loaders of images look: the folder of the node's distribution, and that of the others.

    Those of the Debian family look in the multiarch folder and not in lib64, those of the RPM
    distributions the other way round.
    """
    return tuple(dict.fromkeys((own, COMMON_FOLDERS[aarch64], COMMON_FOLDERS[2])))


def is_driver_library(name: str, version: str) -> bool:
    """Return whether a file's name is that of a library of this version of the driver, or of a part with its own."""
    if OWN_VERSION.match(name) or PLATFORMS.fullmatch(name):
        return True
    return name.startswith("lib") and name.endswith(f".so.{version}")


def stem(name: str) -> str:
    """Return a library's name without what follows the dot: libcuda of libcuda.so.1."""
    return name.partition(".so")[0]


def collect(pairs: t.Iterable[Pair], capabilities: Chosen) -> t.List[Library]:
    """Gather (file, name) pairs into libraries, in the order in which the files come up first."""
    names: t.Dict[str, t.Set[str]] = {}
    for path, name in pairs:
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
