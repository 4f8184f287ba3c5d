# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node.container_runtime remembers: how files were before, and which runtime has to start again."""

from __future__ import annotations

import json
import time
import typing as t

from ..._base.errors import readable
from ..._machine.host import Host
from ..._machine.units import properties
from .. import edits
from ..state import describe
from .engine import Runtime

RECORD = "/var/lib/gpu-node/container_runtime.json"
MARK = "/run/gpu-node/container_runtime.json"  # after a boot, every runtime has read its files
# Files as the running programs have read them, by unit, until these have taken over what was written since.
BEFORE = "/run/gpu-node/container_runtime.before.json"
# Configurations of runtimes may hold passwords of registries.
FILE_MODES = {RECORD: 0o600, MARK: 0o644, BEFORE: 0o600}

NOTHING = ("", "{}")  # what is left of a file


class Written(t.NamedTuple):
    """A file that we wrote: whose it is, what it was before (None: not there), and what is in it.

    ``made_folder`` says that its folder was not there either. Earlier releases do not read that.
    """

    runtime: str
    base: t.Optional[str]
    text: str
    entries: t.Tuple[edits.Entry, ...]
    made_folder: bool = False

    def data(self) -> t.Dict[str, t.Any]:
        """Return the file as JSON data for the record."""
        data = self._asdict()
        if not self.made_folder:
            del data["made_folder"]
        return data


def _written(data: t.Mapping[str, t.Any]) -> Written:
    """Return the file of a record's JSON data."""
    return Written(**{**data, "entries": tuple(map(edits.Entry.of, data["entries"]))})


class Records:
    """The files that we wrote, by their paths."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def all(self) -> t.Dict[str, Written]:
        """Return all files that we wrote."""
        with readable(RECORD, "remove the file; what earlier runs wrote then counts as your own"):
            data = json.loads(self._host.read(RECORD) or "{}")
            return {path: _written(entry) for path, entry in data.items()}

    def put(self, path: str, written: t.Optional[Written]) -> None:
        """Remember a file, or forget it if None."""
        known = {**self.all(), path: written}
        self._store(RECORD, {name: file.data() for name, file in known.items() if file})

    def _store(self, path: str, data: t.Mapping[str, t.Any]) -> None:
        if data:
            self._host.write(path, json.dumps(data) + "\n", mode=FILE_MODES[path])
        else:
            self._host.remove(path)

    def saved(self) -> t.Dict[str, t.Optional[str]]:
        """Return all that is remembered, for ``restore``."""
        return {path: self._host.read(path) for path in FILE_MODES}

    def restore(self, saved: t.Mapping[str, t.Optional[str]]) -> None:
        """Remember what was remembered, and nothing else."""
        for path, text in saved.items():
            if text is None:
                self._host.remove(path)
            else:
                self._host.write(path, text, mode=FILE_MODES[path])

    def keep_before(self, unit: str, path: str, text: t.Optional[str]) -> None:
        """Save a file's text before an edit that its unit has to take over, unless an earlier edit waits too."""
        saved, written = self._before(), self.all().get(path)
        entry = {"text": text, "written": written and written.data()}
        saved.setdefault(unit, {}).setdefault(path, entry)
        self._store(BEFORE, saved)

    def before(self, unit: str) -> t.Dict[str, t.Optional[str]]:
        """Return the texts of files that a unit's program has read, where they were edited since."""
        return {path: entry["text"] for path, entry in self._before().get(unit, {}).items()}

    def forget_before(self, unit: str, *, restore: bool = False) -> None:
        """Forget these texts; with ``restore`` what is remembered of the files is as it was then."""
        saved = self._before()
        files = saved.pop(unit, {})
        if not files:
            return
        self._store(BEFORE, saved)
        for path, entry in files.items() if restore else ():
            self.put(path, _written(entry["written"]) if entry["written"] else None)
        if restore:
            self.unmark(unit)

    def _before(self) -> t.Dict[str, t.Dict[str, t.Any]]:
        with readable(BEFORE, "remove the file, and restart the container runtime once"):
            return dict(json.loads(self._host.read(BEFORE) or "{}"))

    def _marks(self) -> t.Dict[str, float]:
        with readable(MARK, "remove the file, and restart the container runtime once"):
            marks = json.loads(self._host.read(MARK) or "{}")
            return {str(unit): float(since) for unit, since in marks.items()}

    def mark(self, unit: str, *, live: bool = False) -> None:
        """Remember that a unit has to start again, or if ``live`` to reload its files."""
        self._store(MARK, {**self._marks(), _key(unit, live): time.time()})

    def unmark(self, unit: str) -> None:
        """Forget that a unit has to start again, since the edit changed nothing."""
        ours = (_key(unit, False), _key(unit, True))
        marks = {key: since for key, since in self._marks().items() if key not in ours}
        self._store(MARK, marks)

    def stale(self, unit: str, *, live: bool = False) -> bool:
        """Return whether a unit has run, or with ``live`` was not reloaded either, since before an edit of ours."""
        edited_at = self._marks().get(_key(unit, live))
        if edited_at is None:
            return False
        started = self._started(unit, live=live, failed=True)
        return started is not None and edited_at > started

    def wrote(self, path: str) -> None:
        """Remember that a file is as we wrote it, so that its time says nothing: marks do."""
        status = self._host.status(path)
        if status is not None:
            self._store(MARK, {**self._marks(), path: status.ctime})

    def changed(self, runtime: Runtime, paths: t.Iterable[str]) -> t.Tuple[str, ...]:
        """Return the files that somebody has changed since their runtime was started, or reloaded if it can be."""
        ours, clock = self._marks(), time.time()
        statuses = {path: self._host.status(path) for path in paths}
        times = {path: status.ctime for path, status in statuses.items() if status is not None}
        # systemd is asked only where something is newer than the last boot.
        booted = clock - time.monotonic()
        late = {path: at for path, at in times.items() if booted < at <= clock}
        new = {path: at for path, at in late.items() if at != ours.get(path)}
        started = self._started(runtime.unit, live=bool(runtime.kind.keys.live)) if new else None
        return tuple(path for path, at in new.items() if started is not None and at > started)

    def _started(self, unit: str, *, live: bool, failed: bool = False) -> t.Optional[float]:
        """Return when a unit was started, or with ``live`` last reloaded, None if it does not run.

        With ``failed``, a unit that has failed counts from then on.
        """
        # A reload leaves the time of the start as it is, and is a change of the state.
        since = "ActiveEnterTimestampMonotonic"
        change = "StateChangeTimestampMonotonic"
        service = properties(self._host, unit, "ActiveState", since, change) if unit else {}
        state = service.get("ActiveState")
        if state != "active" and not (failed and state == "failed"):
            return None
        key = change if live or state == "failed" else since
        return time.time() - time.monotonic() + int(service.get(key) or 0) / 1e6


def _key(unit: str, live: bool) -> str:
    return f"{unit} (reload)" if live else unit


class File(t.NamedTuple):
    """A file of a runtime: its text, None if there is none, what is known of it, and the edit."""

    path: str
    text: t.Optional[str]
    fresh: str
    changes: t.Tuple[edits.Change, ...] = ()
    reverts: t.Tuple[edits.Change, ...] = ()
    removals: t.Tuple[edits.Removal, ...] = ()
    written: t.Optional[Written] = None
    restored: bool = False

    def is_live(self, live: t.Sequence[edits.Path]) -> bool:
        """Return whether a reload, which takes over keys below ``live``, is enough; what goes away takes a start."""
        gone = bool(self.reverts or self.removals or self.restored)
        keys = [path for path, _value in self.changes]
        return not gone and all(
            any(key[: len(prefix)] == prefix for prefix in live) for key in keys
        )

    def summary(self) -> str:
        """Return the edit as text."""
        if self.restored:
            verb = "remove" if self.written and self.written.base is None else "restore"
            return f"{verb} {self.path}"
        parts = [f"set {describe(self.changes)}"] if self.changes else []
        back = [(path, None) for path, _depth in self.removals] + list(self.reverts)
        parts += [f"revert {', '.join(path[-1] for path, _value in back)}"] if back else []
        return f"{' and '.join(parts)} in {self.path}"

    def planned(
        self, runtime: Runtime, changes: t.Sequence[edits.Change], keep: t.Container[edits.Path]
    ) -> t.Optional[File]:
        """Return the file with its edit, None if it needs none: changes, and what of ours is not to be kept."""
        entries = self.written.entries if self.written else ()
        idle = [entry for entry in entries if entry.path not in keep]
        reverts, removals = edits.revert(runtime.parse(self.text or "", self.path), idle)
        if not (changes or reverts or removals):
            return None
        untouched = self.written is not None and self.text == self.written.text
        restored = untouched and not changes and len(idle) == len(entries)
        changed = self._replace(changes=tuple(changes), reverts=tuple(reverts))
        return changed._replace(removals=tuple(removals), restored=restored)

    def edited(self, runtime: Runtime) -> t.Optional[str]:
        """Return the text after the edit, None if no file is left."""
        if self.restored and self.written:
            return self.written.base
        changes = [*self.reverts, *self.changes]
        text = self.text or ""
        if self.changes and not runtime.parse(text, self.path):
            text = self.fresh + text
        text = runtime.edit(text, changes, self.removals)
        return text if self.changes else self._without_us(runtime, text)

    def _without_us(self, runtime: Runtime, text: str) -> t.Optional[str]:
        """Return a text without what we began a file with that had no keys, None if we made the file."""
        if self.written is None or runtime.parse(self.written.base or "", self.path):
            return text
        if runtime.parse(text, self.path) not in ({}, runtime.parse(self.fresh, self.path)):
            return text
        without = text.replace(self.fresh, "", 1) if self.fresh else text
        return None if self.written.base is None and without.strip() in NOTHING else without

    def record(self, runtime: Runtime, text: str, *, makes_folder: bool = False) -> Written:
        """Return what to remember of the file once it has this text."""
        old, base = self.written, self.text
        config = runtime.parse(self.text or "", self.path)
        entries = old.entries if old else ()
        if old is not None and self.text is not None:
            reverted = runtime.edit(self.text, *edits.revert(config, entries))
            base = old.base if self.text == old.text else self._without_us(runtime, reverted)
        gone = {path for path, _detail in (*self.removals, *self.reverts)}
        remaining = [entry for entry in entries if entry.path not in gone]
        noted = edits.note(config, self.changes, entries, remaining)
        made = makes_folder or bool(old and old.made_folder)
        return Written(runtime.kind.name, base, text, tuple(noted), made)
