# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Edits of nested settings that can be reverted, also after others have edited the same file."""

from __future__ import annotations

import copy
import typing as t

Path = t.Tuple[str, ...]
Change = t.Tuple[Path, t.Any]  # None: the key is not to be there
Removal = t.Tuple[Path, int]  # a key, and how many of the tables around it stay even if empty
Config = t.Dict[str, t.Any]
Table = t.Mapping[str, t.Any]


class Entry(t.NamedTuple):
    """A key that we set: its value, what it had (one value or none), and how many tables were there."""

    path: Path
    value: t.Any
    had: t.Tuple[t.Any, ...]
    depth: int

    @classmethod
    def of(cls, data: t.Sequence[t.Any]) -> Entry:
        """Return an entry as it was written to a file."""
        path, value, had, depth = data
        return cls(tuple(path), value, tuple(had), depth)


def find(config: Table, path: Path) -> t.Tuple[t.Tuple[t.Any, ...], int]:
    """Return the value at a path, if there is one, and how many tables lead there."""
    table: t.Any = config
    for depth, key in enumerate(path):
        if not isinstance(table, t.Mapping) or key not in table:
            return (), depth
        table = table[key]
    return (table,), len(path) - 1


def lookup(config: Table, path: Path) -> t.Any:
    """Return the value at a path of keys, None if there is none."""
    value, _depth = find(config, path)
    return value[0] if value else None


def note(
    config: Table,
    changes: t.Iterable[Change],
    before: t.Sequence[Entry],
    entries_kept: t.Optional[t.Iterable[Entry]] = None,
) -> t.List[Entry]:
    """Return the entries for changes that are about to be made, after earlier ones.

    Args:
        config: What the file has.
        changes: What it gets.
        before: The entries of all that we have set in it.
        entries_kept: The entries of what stays of that. None: all of them.
    """
    entries = {entry.path: entry for entry in (before if entries_kept is None else entries_kept)}
    # Tables that only we have made are not there without us.
    applied = apply(config, *revert(config, before))
    for path, value in changes:
        had, _depth = find(config, path)
        known = entries.get(path)
        if known is not None and had == (known.value,):
            entries[path] = known._replace(value=value)
        else:
            entries[path] = Entry(path, value, had, find(applied, path)[1])
    return list(entries.values())


def revert(config: Table, entries: t.Iterable[Entry]) -> t.Tuple[t.List[Change], t.List[Removal]]:
    """Return how entries are reverted; what others have set since then stays."""
    changes: t.List[Change] = []
    removals: t.List[Removal] = []
    for entry in entries:
        value, _depth = find(config, entry.path)
        if not value:
            if entry.value is None and entry.had and find(config, entry.path[:-1])[0]:
                changes.append((entry.path, entry.had[0]))
            continue
        if value == (entry.value,):
            remaining: t.Any = entry.had[0] if entry.had else None
        elif isinstance(value[0], list) and isinstance(entry.value, list):
            had = entry.had[0] if entry.had and isinstance(entry.had[0], list) else []
            ours = [item for item in entry.value if item not in had]
            remaining = [item for item in value[0] if item not in ours]
            if remaining == value[0]:
                continue
        else:
            continue
        if entry.had or remaining:
            changes.append((entry.path, remaining))
        else:
            removals.append((entry.path, entry.depth))
    return changes, removals


def apply(config: Table, changes: t.Iterable[Change], removals: t.Iterable[Removal]) -> Config:
    """Return the configuration after an edit."""
    after: Config = copy.deepcopy(dict(config))
    for path, value in changes:
        if value is None:
            if find(after, path)[0]:
                remove(after, path, len(path))
            continue
        table = after
        for key in path[:-1]:
            table = table.setdefault(key, {})
        table[path[-1]] = value
    for path, depth in removals:
        remove(after, path, depth)
    return after


def remove(config: t.Any, path: Path, depth: int) -> None:
    """Remove a key in place, and the tables around it that are empty then."""
    tables = [config]
    for key in path[:-1]:
        tables.append(tables[-1][key])
    del tables[-1][path[-1]]
    for level in range(len(path) - 1, depth, -1):
        if tables[level]:
            break
        del tables[level - 1][path[level - 1]]
