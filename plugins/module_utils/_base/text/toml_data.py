# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML as data, with where its tables and keys stand: for edits, and for a Python without tomllib."""

from __future__ import annotations

import re
import typing as t

from . import toml_scan
from .toml_scan import BLANK, COMMENT, GAP, Keys, after, wrong

LINE_END = re.compile(rf"[ \t]*(?:{COMMENT})?(?:\r?\n|\Z)")
# How a table came to be there: by its heading, by that of one in it, by a key with dots, as a value.
HEADED, IMPLIED, DOTTED, INLINE, ARRAY = "headed", "implied", "dotted", "inline", "array"


class Heading(t.NamedTuple):
    """A table's line: its path, where it begins and ends. The first one, of no length, is the whole file's."""

    path: Keys
    start: int
    end: int


class Entry(t.NamedTuple):
    """A key of a table: its path from the file's, the line's begin, the value's begin and end, and the line's end."""

    path: Keys
    start: int
    value: int
    end: int
    line_end: int
    heading: int


class Document:
    """A text, what it holds, and where. Under a list of tables, a path has ``[0]`` and so on for which."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data: t.Dict[str, t.Any] = {}
        self.headings = [Heading((), 0, 0)]
        self.entries: t.Dict[Keys, Entry] = {}
        self.kinds: t.Dict[Keys, str] = {}
        self._table = self.data
        self._path: Keys = ()
        at = after(GAP, text, 0)
        while at < len(text):
            at = self._heading(at) if text[at] == "[" else self._entry(at)
            at = after(GAP, text, at)

    def _line(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        found = LINE_END.match(self.text, at)
        if found is None:
            raise wrong(self.text, at, "the end of a line")
        return found.end()

    def _heading(self, at: int) -> int:
        text, many = self.text, self.text.startswith("[[", at)
        closing = "]]" if many else "]"
        keys, end = toml_scan.key(text, after(BLANK, text, at + len(closing)))
        end = after(BLANK, text, end)
        if not text.startswith(closing, end):
            raise wrong(text, end, f"{closing} after the name of a table")
        line_end = self._line_end(end + len(closing))
        self._table, self._path = self._opened(keys, at, many)
        self.headings.append(Heading(self._path, self._line(at), line_end))
        return line_end

    def _opened(self, keys: Keys, at: int, many: bool) -> t.Tuple[t.Dict[str, t.Any], Keys]:
        """Return the table of a heading, made where it is not there, and its path."""
        table, path = self.data, t.cast(Keys, ())
        for name in keys[:-1]:
            table, path = self._inner(table, (*path, name), at, IMPLIED, (INLINE,))
        name = keys[-1]
        path = (*path, name)
        if many:
            if self.kinds.setdefault(path, ARRAY if name not in table else "") != ARRAY:
                raise wrong(self.text, at, f"{name} once only")
            table.setdefault(name, []).append({})
            return table[name][-1], (*path, f"[{len(table[name]) - 1}]")
        if name in table and self.kinds.get(path) != IMPLIED:
            raise wrong(self.text, at, f"{name} once only")
        self.kinds[path] = HEADED
        return table.setdefault(name, {}), path

    def _inner(
        self, table: t.Dict[str, t.Any], path: Keys, at: int, kind: str, refused: t.Container[str]
    ) -> t.Tuple[t.Dict[str, t.Any], Keys]:
        """Return a table in a table, made as of a kind where it is not there."""
        name = path[-1]
        if name not in table:
            table[name], self.kinds[path] = {}, kind
        inner, found = table[name], self.kinds.get(path, INLINE)
        if found in refused:
            raise wrong(self.text, at, f"{name} once only")
        if found == ARRAY:
            return inner[-1], (*path, f"[{len(inner) - 1}]")
        return inner, path

    def _entry(self, at: int) -> int:
        text = self.text
        keys, end = toml_scan.key(text, at)
        equals = after(BLANK, text, end)
        if text[equals : equals + 1] != "=":
            raise wrong(text, equals, "'=' after a key")
        start = after(BLANK, text, equals + 1)
        held = toml_scan.value(text, start)
        table, path = self._table, self._path
        for name in keys[:-1]:
            table, path = self._inner(table, (*path, name), at, DOTTED, (HEADED, INLINE, ARRAY))
        if keys[-1] in table:
            raise wrong(text, at, f"{keys[-1]} once only")
        table[keys[-1]] = held.data
        path = (*path, keys[-1])
        line_end = self._line_end(held.end)
        line, last = self._line(at), len(self.headings) - 1
        self.entries[path] = Entry(path, line, start, held.end, line_end, last)
        return line_end


def loads(text: str) -> t.Dict[str, t.Any]:
    """Return what a text holds; ValueError, with line and column, where it is no TOML."""
    return Document(text).data
