# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node.container_runtime remembers: how files were before, and which runtime has to start again."""

from __future__ import annotations

import json
import time
import typing as t

from ..._core.errors import damaged
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
        try:
            return {
                path: Written(
                    one["runtime"],
                    one["base"],
                    one["text"],
                    tuple(Entry.of(entry) for entry in one["entries"]),
                )
                for path, one in json.loads(self._host.read(RECORD) or "{}").items()
            }
        except (ValueError, AttributeError, LookupError, TypeError, RecursionError) as error:
            hint = "remove the file; what earlier runs wrote then counts as your own"
            raise damaged(RECORD, error, hint) from error

    def put(self, path: str, written: t.Optional[Written]) -> None:
        """Remember a file, or with None forget it."""
        known = self.all()
        known.pop(path, None)
        if written is not None:
            known[path] = written
        if known:
            data = {name: one._asdict() for name, one in known.items()}
            # Configurations of runtimes may hold passwords of registries.
            self._host.write(RECORD, json.dumps(data) + "\n", mode=0o600)
        else:
            self._host.remove(RECORD)

    def _marks(self) -> t.Dict[str, float]:
        try:
            marks = json.loads(self._host.read(MARK) or "{}")
            return {str(unit): float(since) for unit, since in marks.items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            hint = "remove the file, and restart the container runtime once"
            raise damaged(MARK, error, hint) from error

    def mark(self, unit: str, *, live: bool = False) -> None:
        """Remember that a unit has to start again, or if ``live`` to reload its files."""
        marks = self._marks()
        text = json.dumps({**marks, _key(unit, live): time.time()}) + "\n"
        self._host.write(MARK, text, mode=0o644)

    def unmark(self, unit: str) -> None:
        """Forget that: the edit came to nothing."""
        marks = self._marks()
        for live in (False, True):
            marks.pop(_key(unit, live), None)
        if marks:
            self._host.write(MARK, json.dumps(marks) + "\n", mode=0o644)
        else:
            self._host.remove(MARK)

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
