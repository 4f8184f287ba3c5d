# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""apt's sources: their files, and whether apt can read them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import apt
from ..._base.packages.apt import Source, parse_deb822, parse_one_line
from ..host import Completed
from .api import PackageManager, failure
from .trial import changed_texts, copy_missing, trial_folder

FOLDER = "/etc/apt/sources.list.d"
UNREADABLE = "The list of sources could not be read"
NO_SOURCES = (
    *("-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=/dev/null"),
    *("-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="),
)
WRITTEN = "# Written by gpu.node."
OWN_SOURCES = f"{FOLDER}/gpu-node.sources"
PREFERENCES_FOLDER = "/etc/apt/preferences.d"
KEYS_FOLDER = "/etc/apt/keyrings/"
LISTS = "/var/lib/apt/lists"


class AptSources(PackageManager):
    """The part of apt that reads its sources."""

    # Lists that were fetched for this process alone.
    _aside: t.Optional[tempfile.TemporaryDirectory[str]] = None
    # Leaves out our own sources file where apt can't read its sources because of it.
    _readable: t.Optional[contextlib.ExitStack] = None
    _parts: t.Sequence[str] = ()

    def _look(self, command: t.Sequence[str]) -> Completed:
        """Run a command that reads apt's sources, without our own file if apt can't read them because of it."""
        completed = self._host.run(self._of(command), check=False)
        if completed.rc != 0 and not self._readable:
            own = self._own_files()
            if own and not self._read_sources({}, own):
                self._readable = contextlib.ExitStack()
                self._parts = _options(self._readable.enter_context(self._trial_folder({}, own)))
                completed = self._host.run(self._of(command), check=False)
        if completed.rc != 0:
            self.check_sources({})
            return self._call(self._of(command))
        return completed

    def _read_own(self) -> None:
        """Have apt read all of its sources again."""
        if self._readable:
            self._readable.close()
            self._readable, self._parts = None, ()

    def sources(self) -> t.Tuple[Source, ...]:
        host = self._host
        sources = parse_one_line(host.read("/etc/apt/sources.list") or "")
        for name in host.listdir(FOLDER):
            path = f"{FOLDER}/{name}"
            if name.endswith(".list"):
                sources += parse_one_line(host.read(path) or "")
            elif name.endswith(".sources"):
                text = host.read(path) or ""
                if path != OWN_SOURCES or not text.startswith(apt.HEADER):
                    sources += parse_deb822(text)
        if all(source.has_all_architectures for source in sources):
            return tuple(sources)
        native = host.run(["dpkg", "--print-architecture"]).out.strip()
        return tuple(source for source in sources if source.has_architecture(native))

    def _call_offline(self, command: t.Sequence[str], *, check: bool = True) -> Completed:
        """Run a command that needs no sources, without them if apt can't read them."""
        completed = self._call(command, check=False)
        if completed.rc != 0 and UNREADABLE in completed.err:
            completed = self._call([command[0], *NO_SOURCES, *command[1:]], check=False)
        if check and completed.rc != 0:
            raise failure(command, completed)
        return completed

    def check_sources(self, files: t.Mapping[str, str], removed: t.Collection[str] = ()) -> None:
        written = sorted(path for path in files if path.startswith(FOLDER))
        error = self._read_sources(files, removed)
        if not error:
            if not files:
                self._read_own()
            return
        ours = {*written, *self._own_files()}
        if self._read_sources({}, ours):
            raise NodeError(
                "apt can't read the node's package sources",
                cause=error,
                hint="mend the entry that apt names, then run again",
            )
        raise NodeError(
            f"apt can't read the package sources with {', '.join(sorted(ours))}, and it was left out",
            cause=error,
            hint="have all entries of one address and suite agree in their options, or add what is missing to the "
            "node's own entry yourself, then run again",
        )

    def _own_files(self) -> t.Set[str]:
        """Return the sources files that were written by gpu.node."""
        names = self._host.listdir(FOLDER)
        paths = [
            f"{FOLDER}/{name}"
            for name in names
            if name.startswith("gpu-node") and name.endswith(".sources")
        ]
        return {path for path in paths if (self._host.read(path) or "").startswith(WRITTEN)}

    def _read_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        """Return why apt can't read its sources with other files in their folder, empty if it can."""
        with self._trial_folder(files, removed) as folder:
            command = ["apt-get", *_options(folder), "indextargets"]
            completed = self._call(command, check=False)
        return apt.read_errors(completed.err.replace(folder, "")) if completed.rc != 0 else ""

    def _trial_folder(
        self, files: t.Mapping[str, str], removed: t.Collection[str]
    ) -> t.ContextManager[str]:
        """Yield a copy of the folders of sources and preferences in which files are written and removed."""
        folders = (FOLDER, PREFERENCES_FOLDER)
        paths = [f"{folder}/{name}" for folder in folders for name in self._host.listdir(folder)]
        texts = changed_texts(self._host, paths, files, removed)
        return trial_folder(texts, KEYS_FOLDER, folders)

    def preview_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        self._read_own()
        self._readable = contextlib.ExitStack()
        trial = self._readable.enter_context(self._trial_folder(files, removed))
        self._parts = _options(trial)
        folder, completed = self._fetch_aside()
        note = complaints(completed)
        if note:
            copy_missing(self._host, LISTS, folder)
        return note

    def end_preview(self) -> None:
        self._read_own()
        self._aside = None

    def update_aside(self) -> bool:
        _folder, completed = self._fetch_aside()
        if completed.rc != 0 or "Failed to fetch" in completed.err:
            self._aside = None  # what is missing here the node's own lists have
        return self._aside is not None

    def _fetch_aside(self) -> t.Tuple[str, Completed]:
        """Fetch the lists into a folder that is removed with this process; return it and the result of apt."""
        self._aside = tempfile.TemporaryDirectory(prefix="gpu-node-lists-")
        os.mkdir(f"{self._aside.name}/partial")
        completed = self._call(self._of(["apt-get", "-q", "update"]), check=False)
        return self._aside.name, completed

    def _of(self, command: t.Sequence[str]) -> t.List[str]:
        """Return a command with the options to read the lists that were fetched aside, if any were."""
        options = [*self._parts]
        if self._aside is not None:
            options += ["-o", f"Dir::State::lists={self._aside.name}/"]
        if options:
            options += ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
        return [command[0], *options, *command[1:]]


def complaints(completed: Completed) -> str:
    """Return the last warnings and errors of apt-get update."""
    lines = [line for line in completed.err.split("\n") if line.startswith(("W:", "E:"))]
    return "; ".join(lines[-4:])


def _options(folder: str) -> t.List[str]:
    """Return the options that make apt read the sources and preferences of a trial folder."""
    return [
        *("-o", f"Dir::Etc::SourceParts={folder}{FOLDER}/"),
        *("-o", f"Dir::Etc::PreferencesParts={folder}{PREFERENCES_FOLDER}/"),
    ]
