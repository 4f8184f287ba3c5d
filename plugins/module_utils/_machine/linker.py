# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's libraries, by the dynamic linker's cache, and in the folders of packages."""

from __future__ import annotations

import posixpath
import typing as t

from .._base import linker
from .._base.linker import Pair
from .host import Host


class Linker:
    """Finds libraries below ``root``, the / of a container or of the node; all paths start there."""

    def __init__(self, host: Host, root: str = "") -> None:
        self._host = host
        self.root = root.rstrip("/")
        self._cache: t.Optional[str] = None

    def cache(self, *, compat32: bool = False) -> t.List[Pair]:
        """Return (name, path) of the libraries in the cache, for 32-bit programs or for the node's own."""
        if self._cache is None:
            argv = ["ldconfig", "-p"]
            if self.root:
                argv += ["-C", f"{self.root}/etc/ld.so.cache"]
            # Without a cache there are still the folders where packages keep their libraries.
            self._cache = self._host.run(argv, check=False).out
        return linker.parse_ldconfig(self._cache, linker.COMPAT32_ABIS if compat32 else linker.ABIS)

    def folders(self, belongs: t.Callable[[str], object], *, compat32: bool = False) -> t.List[str]:
        """Return where to look for libraries: the folders of those that the cache has, and those that packages use.

        ``belongs`` is whether a file of this name is one of them.
        """
        files = (self.real(path) for _name, path in self.cache(compat32=compat32))
        libraries = sorted(file for file in files if file and belongs(posixpath.basename(file)))
        usual = linker.compat32_folders if compat32 else linker.search_folders
        return list(dict.fromkeys([*map(posixpath.dirname, libraries), *usual(self.cache())]))

    def real(self, path: str) -> t.Optional[str]:
        """Return where a path leads, None if there is nothing."""
        real = self.follow(path)
        return real if real and self._host.exists(self.root + real) else None

    def follow(self, path: str) -> t.Optional[str]:
        """Return where a path leads, even if nothing is there; None if it goes in circles."""
        return linker.resolve(path, lambda link: self._host.readlink(self.root + link))
