# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node.container_runtime remembers: how files were before, and which runtime has to start again."""

from __future__ import annotations

import json
import time
import typing as t

from ..._core.errors import readable
from ..._core.runtimes.edits import Entry
from ..._host.api import Host
from ..._host.systemd import properties

RECORD = "/var/lib/gpu-node/container_runtime.json"
MARK = "/run/gpu-node/container_runtime.json"  # after a boot, every runtime has read its files


class Written(t.NamedTuple):
    """A file that we wrote: whose it is, what it was before (None: not there), and what is in it."""

    runtime: str
    base: t.Optional[str]
    text: str
    entries: t.Tuple[Entry, ...]


class Records:
    """The files that we wrote, by their paths."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def all(self) -> t.Dict[str, Written]:
        """Return all of them."""
        with readable(RECORD, "remove the file; what earlier runs wrote then counts as your own"):
            return {
                path: Written(**{**one, "entries": tuple(map(Entry.of, one["entries"]))})
                for path, one in json.loads(self._host.read(RECORD) or "{}").items()
            }

    def put(self, path: str, written: t.Optional[Written]) -> None:
        """Remember a file, or with None forget it."""
        known = {**self.all(), path: written}
        # Configurations of runtimes may hold passwords of registries.
        self._store(RECORD, {name: one._asdict() for name, one in known.items() if one}, 0o600)

    def _store(self, path: str, data: t.Mapping[str, t.Any], mode: int) -> None:
        if data:
            self._host.write(path, json.dumps(data) + "\n", mode=mode)
        else:
            self._host.remove(path)

    def _marks(self) -> t.Dict[str, float]:
        with readable(MARK, "remove the file, and restart the container runtime once"):
            marks = json.loads(self._host.read(MARK) or "{}")
            return {str(unit): float(since) for unit, since in marks.items()}

    def mark(self, unit: str, *, live: bool = False) -> None:
        """Remember that a unit has to start again, or if ``live`` to reload its files."""
        self._store(MARK, {**self._marks(), _key(unit, live): time.time()}, 0o644)

    def unmark(self, unit: str) -> None:
        """Forget that: the edit came to nothing."""
        ours = (_key(unit, False), _key(unit, True))
        marks = {key: since for key, since in self._marks().items() if key not in ours}
        self._store(MARK, marks, 0o644)

    def stale(self, unit: str, *, live: bool = False) -> bool:
        """Tell whether a unit has run, or with ``live`` was not reloaded either, since before an edit of ours."""
        edited_at = self._marks().get(_key(unit, live))
        if edited_at is None:
            return False
        # A reload leaves the time of the start as it is, and is a change of the state.
        since = "StateChangeTimestampMonotonic" if live else "ActiveEnterTimestampMonotonic"
        service = properties(self._host, unit, "ActiveState", since)
        if service.get("ActiveState") != "active":
            return False
        started = int(service.get(since) or 0) / 1e6
        return float(edited_at) > time.time() - time.monotonic() + started


def _key(unit: str, live: bool) -> str:
    return f"{unit} (reload)" if live else unit
