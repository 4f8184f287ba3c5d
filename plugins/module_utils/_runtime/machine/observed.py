# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container runtimes of a node as they are, and what has to change in their files."""

from __future__ import annotations

import typing as t

from ..edits import Change, lookup
from ..state import RuntimeView
from .engine import Runtime
from .record import File


class RuntimeState(t.NamedTuple):
    """A runtime, how it is, and what has to change."""

    runtime: Runtime
    view: RuntimeView
    path: str
    files: t.Tuple[File, ...]
    stale: bool
    stale_live: bool
    ended: t.Tuple[str, ...] = ()  # containers that a restart would end
    changed: t.Tuple[str, ...] = ()  # files not read since a change: ours may not be in effect
    down: str = ""  # why it starts no containers
    missing: t.Tuple[Change, ...] = ()  # what the file has, and the running program says it has not

    def restarts(self) -> bool:
        """Return whether the runtime has to start again."""
        if self.stale or self.changed or self.missing:
            return True
        return not all(file.is_live(self.runtime.kind.keys.live) for file in self.files)

    def reloads(self) -> bool:
        """Return whether it is enough that the runtime reloads its files."""
        return (bool(self.files) or self.stale_live) and not self.restarts()

    def left(self, tried: t.Mapping[str, t.Any]) -> t.List[Change]:
        """Return the default runtime that edits take back and another file still has, unless it was on the trial.

        Other settings may be what the runtime has by itself.
        """
        key = self.runtime.kind.keys.default
        gone = [change for file in self.files for change in (*file.reverts, *file.removals)]
        names = {path for path, _value in gone}
        written = (file.written.entries for file in self.files if file.written)
        ours = {entry.path: entry.value for entries in written for entry in entries}
        path = (*self.view.prefix, *key)
        value = ours.get(path) if path in names else None
        stays = value is not None and lookup(self.view.effective, key) == value
        return [(key, value)] if stays and lookup(tried, key) != value else []


class RuntimesState(t.NamedTuple):
    """All runtimes that were chosen."""

    states: t.Tuple[RuntimeState, ...]
    warnings: t.Tuple[str, ...]
