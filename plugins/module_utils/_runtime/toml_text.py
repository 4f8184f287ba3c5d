# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML files: edited in place, so that comments, order, indentation and all other keys stay as they are."""

from __future__ import annotations

import json
import posixpath
import re
import typing as t

from .._base.errors import NodeError
from .._base.text import toml_data
from .._base.text.toml_data import DOTTED, Document, Entry, Heading
from .edits import Change, Path, Removal, lookup, remove

BARE = re.compile(r"[A-Za-z0-9_-]+")
STEP = "  "
FIX = "fix the file; it was left as it is"
LOOKED_BACK = 200  # characters
Splice = t.Tuple[int, int, str]  # what stands between two places becomes a text


def edit(text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()) -> str:
    """Return the text with values set at paths of keys, and keys removed.

    Raises:
        ValueError: if the text is no TOML.
    """
    if changes:
        text = _Setting(Document(text), changes).after()
    return _without(text, removals) if removals else text


def line(text: str, path: Path) -> int:
    """Return the line of a key or of a table's heading, or of the nearest one around it; 1 where there is none."""
    document = Document(text)
    places = {heading.path: heading.start for heading in document.headings}
    places.update((entry.path, entry.start) for entry in document.entries.values())
    known = (places[path[:size]] for size in range(len(path), -1, -1) if path[:size] in places)
    return text.count("\n", 0, next(known)) + 1


def key_text(parts: t.Iterable[str]) -> str:
    """Return a key as files have it."""
    return ".".join(part if BARE.fullmatch(part) else value_text(part) for part in parts)


def value_text(value: t.Any) -> str:
    """Return a value as files have it, in one line."""
    if isinstance(value, t.Mapping):
        inner = ", ".join(f"{key_text([key])} = {value_text(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(value_text, value))}]"
    # What JSON writes for a text, a number, true and false is what TOML has for them.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def no_table(path: Path, key: str) -> NodeError:
    """Return the error if a table is needed and something else is there."""
    return NodeError(f"{'.'.join(path)} is not a table", cause=f"{key} must be set in it", hint=FIX)


class _Setting:
    """Values set in a document: where each of them goes."""

    def __init__(self, document: Document, changes: t.Sequence[Change]) -> None:
        self._document = document
        self._newline = "\r\n" if "\r\n" in document.text else "\n"
        self._splices: t.List[Splice] = []
        self._headings = {heading.path: heading for heading in document.headings}
        # The last key of each table, by the number of its heading.
        self._last = {entry.heading: entry for entry in document.entries.values()}
        self._indents = {
            heading.path: self._indent(heading.start) for heading in document.headings[1:]
        }
        lines: t.Dict[Path, t.List[t.Tuple[Path, t.Any]]] = {}  # of a table that has its heading
        tables: t.Dict[Path, t.List[t.Tuple[Path, t.Any]]] = {}  # that get one
        inline: t.Dict[Entry, t.Dict[Path, t.Any]] = {}
        for path, value in changes:
            around = self._around(path)
            if around is None:
                at = self._table_of(path)
                group = lines if at in self._headings else tables
                group.setdefault(at, []).append((path[len(at) :], value))
            elif around.path == path:
                self._splices.append((around.value, around.end, value_text(value)))
            else:
                inline.setdefault(around, {})[path[len(around.path) :]] = value
        for at, line in lines.items():
            self._add_lines(self._headings[at], line)
        for at, table in tables.items():
            self._add_table(at, table)
        for entry, values in inline.items():
            shown = document.text[entry.value : entry.end]
            for path, value in values.items():
                shown = _inline_set(shown, 0, path, value, entry.path)
            self._splices.append((entry.value, entry.end, shown))

    def after(self) -> str:
        """Return the text after all of them."""
        text = self._document.text
        # From the end on; what is put at the same place keeps its order.
        ordered = sorted(self._splices, key=lambda splice: splice[0])
        for start, end, new in reversed(ordered):
            text = text[:start] + new + text[end:]
        return text

    def _around(self, path: Path) -> t.Optional[Entry]:
        """Return the key that is the path's, or whose inline table the path leads into."""
        entries = self._document.entries
        for size in range(1, len(path) + 1):
            entry = entries.get(path[:size])
            if entry is None:
                continue
            if size < len(path) and self._document.text[entry.value] != "{":
                raise no_table(path[:size], path[-1])
            return entry
        if path in self._document.kinds:
            raise NodeError(
                f"{'.'.join(path)} is a table", cause="a value must be set there", hint=FIX
            )
        return None

    def _table_of(self, path: Path) -> Path:
        """Return the path of the table under whose heading a key goes."""
        kinds = self._document.kinds
        for size in range(len(path) - 1, 0, -1):
            kind = kinds.get(path[:size])
            if kind == "array":
                raise no_table(path[:size], path[-1])
            if kind == DOTTED:  # no heading may open it again: it goes where its keys with dots are
                entries = self._document.entries.values()
                made = (entry.heading for entry in entries if entry.path[:size] == path[:size])
                return self._document.headings[next(made, 0)].path
            if kind is not None:
                break
        return path[:-1]

    def _add_lines(self, heading: Heading, values: t.Iterable[t.Tuple[Path, t.Any]]) -> None:
        document = self._document
        last = self._last.get(document.headings.index(heading))
        at = last.line_end if last else heading.end
        if last:
            indent = self._indent(last.start)
        else:
            indent = self._indent(heading.start) + (self._step() if heading.path else "")
            at = at or self._first()
        lines = [f"{indent}{key_text(key)} = {value_text(value)}" for key, value in values]
        self._put(at, lines)

    def _first(self) -> int:
        """Return where the file's first key goes: before all tables, after what is said of the file."""
        headings = self._document.headings
        if len(headings) == 1:
            return len(self._document.text)
        text = self._document.text[: headings[1].start]
        blank = re.search(r"\A(?:[ \t]*#[^\n]*\n)*(?=[ \t]*\r?\n)", text)
        return blank.end() if blank else 0

    def _add_table(self, path: Path, values: t.Iterable[t.Tuple[Path, t.Any]]) -> None:
        near = self._near(path)
        self._indents[path] = indent = self._table_indent(path)
        inner = indent + self._step()
        lines = [f"{indent}[{key_text(path)}]"]
        lines += [f"{inner}{key_text(key)} = {value_text(value)}" for key, value in values]
        below = near.path[: len(path)] == path
        at = near.start if below else self._end(near)
        before = self._document.text[:at].rstrip(" \t")
        if before and not before.endswith(("\n\n", "\n\r\n")) and not self._is_dense():
            lines.insert(0, "")
        self._put(at, [*lines, ""] if below and not self._is_dense() else lines)

    def _table_indent(self, path: Path) -> str:
        """Return how far a new table is indented: as its siblings, or a step further than the one around it."""
        for other, indent in self._indents.items():
            if other[:-1] == path[:-1] and other:
                return indent
        around = (path[:size] for size in range(len(path) - 1, 0, -1))
        near = next((table for table in around if table in self._indents), None)
        if near is None:
            return ""
        return self._indents[near] + (STEP if any(self._indents.values()) else "")

    def _near(self, path: Path) -> Heading:
        """Return the heading that a new table goes to: its first child's, or the last one that shares the most."""
        best, most = self._document.headings[0], -1
        for heading in self._document.headings:
            if heading.path[: len(path)] == path:
                return heading
            shared = _shared(heading.path, path)
            if shared >= most:
                best, most = heading, shared
        return best if most else self._document.headings[-1]

    def _end(self, heading: Heading) -> int:
        if not heading.path:  # the only one
            return len(self._document.text)
        last = self._last.get(self._document.headings.index(heading))
        return last.line_end if last else heading.end

    def _put(self, at: int, lines: t.Sequence[str]) -> None:
        text = self._document.text
        new = self._newline.join(lines) + self._newline
        if at and text[at - 1] != "\n":
            new = self._newline + new
        self._splices.append((at, at, new))

    def _indent(self, at: int) -> str:
        return self._document.text[at : toml_data.after(toml_data.BLANK, self._document.text, at)]

    def _step(self) -> str:
        """Return how much further than its heading the file indents a key."""
        document = self._document
        for entry in document.entries.values():
            if entry.heading:
                heading = document.headings[entry.heading]
                return self._indent(entry.start)[len(self._indent(heading.start)) :]
        return ""

    def _is_dense(self) -> bool:
        """Return whether the file's tables follow each other without blank lines."""
        text, headings = self._document.text, self._document.headings[2:]
        return bool(headings) and not any(
            re.search(r"\n[ \t]*\r?\n\Z", text[: heading.start][-LOOKED_BACK:])
            for heading in headings
        )


def _shared(path: Path, other: Path) -> int:
    return len(posixpath.commonprefix([path, other]))


def _inline_set(text: str, at: int, path: Path, value: t.Any, where: Path) -> str:
    """Return a text with a value set in the inline table that begins at a place."""
    members, end = toml_data.members(text, at)
    for member, _data in members:
        size = len(member.keys)
        if member.keys == path[:size]:
            if size == len(path):
                return text[: member.value] + value_text(value) + text[member.end :]
            if text[member.value] != "{":
                raise no_table((*where, *member.keys), path[-1])
            return _inline_set(text, member.value, path[size:], value, (*where, *member.keys))
    # A table that keys with dots made takes more of them, and nothing else.
    dotted = any(_shared(member.keys, path) for member, _data in members)
    keys, held = (path, value) if dotted else (path[:1], value)
    for name in reversed(path[len(keys) :]):
        held = {name: held}
    new = f"{key_text(keys)} = {value_text(held)}"
    if members:
        last = members[-1][0].end
        return f"{text[:last]}, {new}{text[last:]}"
    return f"{text[: at + 1]} {new} {text[end:]}"


def _without(text: str, removals: t.Sequence[Removal]) -> str:
    """Return a text without keys, and without the tables around them that are empty then, down to a depth."""
    document = Document(text)
    lines: t.Dict[Path, int] = {}
    for path, depth in removals:
        # The key that is the path's, or whose inline table it is in.
        known = (path[:size] for size in range(1, len(path) + 1))
        entry = next(filter(None, map(document.entries.get, known)), None)
        if entry is not None and entry.path != path:
            inline = _inline_without(document, entry, path, depth)
            if inline:
                text = text[: entry.value] + inline + text[entry.end :]
                document = Document(text)
                continue
        if entry is not None:
            lines.setdefault(entry.path, depth)
    gone = [(line.start, line.line_end) for line in map(document.entries.__getitem__, lines)]
    for heading in _empty(document, lines):  # each with the blank line before it
        start = heading.start
        blank = re.search(r"(?<=\n)[ \t]*\r?\n\Z", text[max(start - LOOKED_BACK, 0) : start])
        gone.append((start - len(blank[0]) if blank else start, heading.end))
    for start, end in sorted(gone, reverse=True):
        text = text[:start] + text[end:]
    return text


def _empty(document: Document, lines: t.Mapping[Path, int]) -> t.List[Heading]:
    """Return the headings of tables that hold nothing once keys go one by one; each key has its depth that stays."""
    entries = dict.fromkeys(document.entries)
    headings = document.headings[1:]
    gone: t.List[Heading] = []
    for path, depth in lines.items():
        del entries[path]
        for level in range(len(path) - 1, depth, -1):
            table = path[:level]
            below = [heading for heading in headings if heading.path[:level] == table]
            has_entries = any(entry[:level] == table for entry in entries)
            if has_entries or any(heading.path != table for heading in below):
                break
            gone += below
            headings = [heading for heading in headings if heading not in below]
    return gone


def _inline_without(document: Document, entry: Entry, path: Path, depth: int) -> str:
    """Return an inline table without a key; empty if nothing of it is left to stay."""
    path, depth = path[len(entry.path) :], depth - len(entry.path)
    data = toml_data.value(document.text, entry.value).data
    if lookup(data, path) is None:
        return document.text[entry.value : entry.end]
    remove(data, path, max(depth, 0))
    return value_text(data) if data or depth >= 0 else ""
