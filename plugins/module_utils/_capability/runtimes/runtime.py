# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container runtime on a node: the frame that all of them share."""

from __future__ import annotations

import contextlib
import typing as t

from ..._core.runtimes import json_text
from ..._core.runtimes.common import (
    Change,
    Kind,
    Version,
    View,
    Wanted,
    about_default,
    has_cdi,
    lookup,
    parse_version,
)
from ..._core.runtimes.edits import Config, Removal
from ..._host import toml
from ..._host.api import Host


class Runtime:
    """One container runtime of a ``kind``; ``unit`` is the one that runs it."""

    kind: Kind

    def __init__(self, host: Host) -> None:
        self._host = host
        self.unit = self.kind.units[0] if self.kind.units else ""

    def view(self, path: str, wanted: Wanted) -> View:
        """Read version and configuration, and compute what it must have."""
        kind, version = self.kind, self._version()
        cdi = has_cdi(kind, version, wanted)
        effective = self._effective(path, version)
        return View(
            version,
            (path,),
            prefix=kind.prefix,
            effective=effective,
            settings=tuple(kind.settings(effective, wanted, cdi)),
            warnings=about_default(lookup(effective, kind.default), wanted),
        )

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        """Return what the runtime makes of its files."""
        raise NotImplementedError

    def check(self, path: str, text: str) -> None:
        """Have the runtime check what would become of a file; NodeError when it is refused."""

    def left_out(self, others: t.Container[str]) -> bool:
        """Tell whether nothing on this node uses it, given the other runtimes that are there."""
        return False

    def parse(self, text: str, path: str) -> Config:
        """Return the content of a file."""
        return toml.parse(text, path) if self.kind.toml else json_text.parse(text, path)

    def edit(
        self, text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()
    ) -> str:
        """Return the text of a file after an edit."""
        return (toml.edit if self.kind.toml else json_text.edit)(text, changes, removals)

    def _version(self) -> Version:
        return parse_version(self._host.run([self.kind.program, "--version"]).out, self.kind.name)

    @contextlib.contextmanager
    def _trial(self, path: str, text: str) -> t.Iterator[str]:
        """Have a text in a file for the time of a with statement."""
        self._host.write(path, text, mode=0o600)
        try:
            yield path
        finally:
            self._host.remove(path)
