# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's own files on the node: device nodes, libraries, programs and sockets."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from .._core.cdi import files as cdi_files
from .._core.cdi.specification import BINARIES, SOCKETS, Files
from .._core.device_nodes import CAPS_FOLDER, MIG_MINORS, parse_minors
from .api import Host

PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
SPEC_FOLDERS = ("/etc/cdi", "/var/run/cdi")
NVML_LIBRARY = "libnvidia-ml.so.1"
GENERATE_SECONDS = 60


class DriverFiles:
    """Looks below ``root``, where the driver's / is seen on the node; all paths start at that /."""

    def __init__(self, host: Host, root: str) -> None:
        self._host = host
        self.root = root.rstrip("/")
        self._cache: t.Optional[t.List[cdi_files.Pair]] = None

    def device_nodes(self) -> t.FrozenSet[str]:
        """Return NVIDIA's device nodes that exist."""
        found = []
        for folder in ("/dev", CAPS_FOLDER):
            names = self._host.listdir(self.root + folder)
            found += [f"{folder}/{name}" for name in names if name.startswith("nvidia")]
        return frozenset(found)

    def mig_minors(self) -> t.Dict[str, int]:
        """Return the capabilities' minors; /proc is the node's own where the root has none."""
        text = self._host.read(self.root + MIG_MINORS)
        return parse_minors(self._host.read(MIG_MINORS) or "" if text is None else text)

    def default_folder(self) -> str:
        """Return the library folder of the distribution."""
        folders = cdi_files.search_folders(self._ldconfig())
        return next((one for one in folders if self._host.listdir(self.root + one)), folders[0])

    def nvml_library(self) -> str:
        """Return the path of NVML on the node where it is not the node's own, else nothing."""
        if not self.root:
            return ""
        for folder in cdi_files.search_folders(self._ldconfig()):
            path = self._real(f"{folder}/{NVML_LIBRARY}")
            if path:
                return self.root + path
        return ""

    def read(self, version: str) -> Files:
        """Return the files of this version of the driver."""
        binaries = []
        for name in BINARIES:
            for folder in PROGRAM_FOLDERS:
                path = self._real(f"{folder}/{name}")
                if path:
                    binaries.append((path, f"{folder}/{name}"))
                    break
        return Files(
            tuple(self._libraries(version)),
            tuple(binaries),
            tuple(path for path in SOCKETS if self._host.exists(self.root + path)),
        )

    def program(self, *names: str) -> t.Optional[t.Tuple[str, str]]:
        """Return the path of the first of some programs that the node has, and what it tells of its version."""
        for name in names:
            path = self._host.which(name)
            if path is not None:
                return path, self._host.run([path, "--version"], check=False).out
        return None

    def generate(self, argv: t.Sequence[str]) -> str:
        """Return what nvidia-ctk writes; what it has to say goes to its standard error."""
        return self._host.run(argv, timeout=GENERATE_SECONDS).out

    def open_folder(self, path: str) -> str:
        """Return a folder on the way to a path of the node that everybody may write to, if there is one.

        That the driver's root itself can be trusted is the word of whoever named it.
        """
        inside = path.startswith(f"{self.root}/")
        root, visited = (self.root, path[len(self.root) :]) if inside else ("", path)
        folders: t.List[str] = []

        def follow(one: str) -> t.Optional[str]:
            folders.append(root + posixpath.dirname(one))
            return self._host.readlink(root + one)

        end = cdi_files.resolve(visited, follow)
        for folder in dict.fromkeys([*folders, *([root + end] if end else [])]):
            found = self._host.status(folder or "/")
            if found and stat.S_ISDIR(found.mode) and found.mode & stat.S_IWOTH:
                return folder or "/"
        return ""

    def others(self, path: str) -> t.Dict[str, str]:
        """Return the text of all specifications of the node but one, by their paths."""
        found = [
            f"{folder}/{name}"
            for folder in dict.fromkeys((posixpath.dirname(path), *SPEC_FOLDERS))
            for name in self._host.listdir(folder)
            if name.endswith((".json", ".yaml"))
        ]
        return {one: self._host.read(one) or "" for one in found if one != path}

    def _libraries(self, version: str) -> t.List[cdi_files.Library]:
        cache = self._ldconfig()
        found: t.List[cdi_files.Pair] = []
        for name, path in cache:
            real = self._real(path)
            if real and cdi_files.is_driver_library(posixpath.basename(real), version):
                found.append((real, name))
        folders = list(dict.fromkeys(posixpath.dirname(path) for path, _name in sorted(found)))
        folders += [one for one in cdi_files.search_folders(cache) if one not in folders]
        listings = {folder: self._host.listdir(self.root + folder) for folder in folders}
        for folder, names in listings.items():
            for name in names:
                if cdi_files.is_driver_library(name, version):
                    real = self._real(f"{folder}/{name}")
                    found += [(real, name)] if real else []
        files = {path for path, _name in found}
        stems = {cdi_files.stem(posixpath.basename(path)) for path in files}
        for folder, names in listings.items():
            for name in names:
                if ".so" in name and cdi_files.stem(name) in stems:
                    real = self._real(f"{folder}/{name}")
                    found += [(real, name)] if real in files and real else []
        return cdi_files.collect(found)

    def _ldconfig(self) -> t.List[cdi_files.Pair]:
        if self._cache is None:
            argv = ["ldconfig", "-p"]
            if self.root:
                argv += ["-C", f"{self.root}/etc/ld.so.cache"]
            # Without a cache there are still the folders where packages keep their libraries.
            self._cache = cdi_files.parse_ldconfig(self._host.run(argv, check=False).out)
        return self._cache

    def _real(self, path: str) -> t.Optional[str]:
        """Return where a path leads, None where there is nothing."""
        real = cdi_files.resolve(path, lambda one: self._host.readlink(self.root + one))
        return real if real and self._host.exists(self.root + real) else None
