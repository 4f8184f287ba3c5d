# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML 1.0 as data, with the places of its tables, keys and values: for edits, and for Pythons without tomllib.

A text that is no TOML is a ValueError, with line and column.
"""

from __future__ import annotations

import re
import typing as t

Keys = t.Tuple[str, ...]
DEEPEST = 64
LONGEST_NUMBER = 64
BLANK = re.compile(r"[ \t]*")
COMMENT = r"#[^\x00-\x08\n-\x1f\x7f]*"
GAP = re.compile(rf"(?:[ \t\n]|\r\n|{COMMENT})*")
BARE = re.compile(r"[A-Za-z0-9_-]+")
BASIC = re.compile(r'"((?:[^"\\\x00-\x08\n-\x1f\x7f]|\\.)*)"')
LITERAL = re.compile(r"'([^'\x00-\x08\n-\x1f\x7f]*)'")
LONG_BASIC = re.compile(r'"""((?:[^"\\]|\\.|"(?!""))*)"""("{0,2})', re.S)
LONG_LITERAL = re.compile(r"'''((?:[^']|'(?!''))*)'''('{0,2})", re.S)
ESCAPE = re.compile(
    r"\\(?:([btnfr\"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[ \t]*\r?\n[ \t\r\n]*|(.?))", re.S
)
ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
TIME = r"\d{2}:\d{2}:\d{2}(?:\.\d+)?"
MOMENT = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[Tt ]{TIME}(?:[Zz]|[+-]\d{{2}}:\d{{2}})?)?|{TIME}")
WORD = re.compile(r"[A-Za-z0-9_.+-]+")
WHOLE = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*)")
BASED = re.compile(r"0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*")
BROKEN = re.compile(
    rf"{WHOLE.pattern}(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?|[+-]?(?:inf|nan)"
)
LINE_END = re.compile(rf"[ \t]*(?:{COMMENT})?(?:\r?\n|\Z)")
# The origin of a table: its heading, that of a table in it, a key with dots, a value, or a list of tables.
HEADED, IMPLIED, DOTTED, INLINE, ARRAY = "headed", "implied", "dotted", "inline", "array"


class Heading(t.NamedTuple):
    """A table's line: its path, where it begins and ends. The first one, of no length, is that of the whole file."""

    path: Keys
    start: int
    end: int


class Entry(t.NamedTuple):
    """A key of a table: its path from the file's, and where the line begins, the value begins and ends, the line ends.

    ``heading`` is the index of its table's heading.
    """

    path: Keys
    start: int
    value: int
    end: int
    line_end: int
    heading: int


class Document:
    """A text, its data, and the places of headings and keys. Paths have indices of lists of tables, such as ``[0]``."""

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
        match = LINE_END.match(self.text, at)
        if match is None:
            raise wrong(self.text, at, "the end of a line")
        return match.end()

    def _heading(self, at: int) -> int:
        text, many = self.text, self.text.startswith("[[", at)
        closing = "]]" if many else "]"
        keys, end = key(text, after(BLANK, text, at + len(closing)))
        end = after(BLANK, text, end)
        if not text.startswith(closing, end):
            raise wrong(text, end, f"{closing} after the name of a table")
        line_end = self._line_end(end + len(closing))
        self._table, self._path = self._opened(keys, at, many)
        self.headings.append(Heading(self._path, self._line(at), line_end))
        return line_end

    def _opened(self, keys: Keys, at: int, many: bool) -> t.Tuple[t.Dict[str, t.Any], Keys]:
        """Return the table of a heading, a new one if there is none, and its path."""
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
        """Return a table in a table, a new one of a kind if there is none."""
        name = path[-1]
        if name not in table:
            table[name], self.kinds[path] = {}, kind
        inner, inner_kind = table[name], self.kinds.get(path, INLINE)
        if inner_kind in refused:
            raise wrong(self.text, at, f"{name} once only")
        if inner_kind == ARRAY:
            return inner[-1], (*path, f"[{len(inner) - 1}]")
        return inner, path

    def _entry(self, at: int) -> int:
        text = self.text
        keys, end = key(text, at)
        equals = after(BLANK, text, end)
        if text[equals : equals + 1] != "=":
            raise wrong(text, equals, "'=' after a key")
        start = after(BLANK, text, equals + 1)
        parsed = value(text, start)
        table, path = self._table, self._path
        for name in keys[:-1]:
            table, path = self._inner(table, (*path, name), at, DOTTED, (HEADED, INLINE, ARRAY))
        if keys[-1] in table:
            raise wrong(text, at, f"{keys[-1]} once only")
        table[keys[-1]] = parsed.data
        path = (*path, keys[-1])
        line_end = self._line_end(parsed.end)
        line, last = self._line(at), len(self.headings) - 1
        self.entries[path] = Entry(path, line, start, parsed.end, line_end, last)
        return line_end


def loads(text: str) -> t.Dict[str, t.Any]:
    """Return the data of a text.

    Raises:
        ValueError: if it is no TOML, with line and column.
    """
    return Document(text).data


class Value(t.NamedTuple):
    """A value, and where it ends. A date or a time is a text."""

    data: t.Any
    end: int


class Member(t.NamedTuple):
    """A key of an inline table, where it begins, and its value."""

    keys: Keys
    start: int
    value: int
    end: int


def place(text: str, at: int) -> str:
    """Return a place for messages, as line and column."""
    at = min(at, len(text))
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def wrong(text: str, at: int, expected: str) -> ValueError:
    """Return the error for a place."""
    return ValueError(f"expected {expected} at {place(text, at)}")


def after(pattern: t.Pattern[str], text: str, at: int) -> int:
    """Return where a match of a pattern ends, the place itself if there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at


def key(text: str, at: int) -> t.Tuple[Keys, int]:
    """Return the parts of a key, and where it ends."""
    parts: t.List[str] = []
    while True:
        match = BARE.match(text, at) or BASIC.match(text, at) or LITERAL.match(text, at)
        if match is None:
            raise wrong(text, at, "a key")
        parts.append(_text(match, text))
        at = match.end()
        dot = after(BLANK, text, at)
        if text[dot : dot + 1] != ".":
            return tuple(parts), at
        at = after(BLANK, text, dot + 1)


def _text(match: t.Match[str], text: str) -> str:
    if match.re is BARE:
        return match[0]
    return match[1] if match.re is LITERAL else _unescaped(match[1], text, match.start())


def _unescaped(content: str, text: str, at: int) -> str:
    def unescape(match: t.Match[str]) -> str:
        short, four, eight, unknown = match.groups()
        if short:
            return ESCAPED[short]
        if unknown is not None:
            raise wrong(text, at, f"a string without \\{unknown}")
        if not (four or eight):
            return ""  # a line that goes on
        number = int(four or eight, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise wrong(text, at, "a string of Unicode characters")
        return chr(number)

    return ESCAPE.sub(unescape, content) if "\\" in content else content


def value(text: str, at: int, depth: int = 0) -> Value:
    """Return the value at a place."""
    if depth > DEEPEST:
        raise wrong(text, at, f"at most {DEEPEST} values in each other")
    first = text[at : at + 1]
    if first in ('"', "'"):
        return _string(text, at)
    if first == "[":
        return _array(text, at, depth)
    if first == "{":
        return _inline(text, at, depth)
    moment = MOMENT.match(text, at)
    if moment:
        return Value(moment[0], moment.end())
    word = WORD.match(text, at)
    if word is None:
        raise wrong(text, at, "a value")
    return Value(_word(word[0], text, at), word.end())


def _word(word: str, text: str, at: int) -> t.Any:
    if word in ("true", "false"):
        return word == "true"
    if len(word) <= LONGEST_NUMBER:
        if WHOLE.fullmatch(word):
            return int(word.replace("_", ""))
        if BASED.fullmatch(word):
            return int(word.replace("_", ""), 0)
        if BROKEN.fullmatch(word):
            return float(word.replace("_", ""))
    raise wrong(text, at, "a value")


def _string(text: str, at: int) -> Value:
    for fence, long, short in (('"', LONG_BASIC, BASIC), ("'", LONG_LITERAL, LITERAL)):
        if text.startswith(fence * 3, at):
            match = long.match(text, at)
            if match is None or UNPRINTABLE.search(match[0]):
                raise wrong(text, at, f"a string that ends with {fence * 3}")
            content = re.sub(r"\A\r?\n", "", match[1]).replace("\r\n", "\n") + match[2]
            return Value(content if fence == "'" else _unescaped(content, text, at), match.end())
        if text.startswith(fence, at):
            match = short.match(text, at)
            if match is None:
                raise wrong(text, at, f"a string that ends with {fence} in its line")
            return Value(_text(match, text), match.end())
    raise wrong(text, at, "a string")


def _array(text: str, at: int, depth: int) -> Value:
    items: t.List[t.Any] = []
    at = after(GAP, text, at + 1)
    while text[at : at + 1] != "]":
        item = value(text, at, depth + 1)
        items.append(item.data)
        at = after(GAP, text, item.end)
        if text[at : at + 1] == ",":
            at = after(GAP, text, at + 1)
        elif text[at : at + 1] != "]":
            raise wrong(text, at, "a comma or the end of a list")
    return Value(items, at + 1)


def members(text: str, at: int, depth: int = 0) -> t.Tuple[t.List[t.Tuple[Member, t.Any]], int]:
    """Return the members of the inline table at a place with their values, and where its closing brace is."""
    pairs: t.List[t.Tuple[Member, t.Any]] = []
    at = after(BLANK, text, at + 1)
    while text[at : at + 1] != "}" or pairs:
        keys, end = key(text, at)
        equals = after(BLANK, text, end)
        if text[equals : equals + 1] != "=":
            raise wrong(text, equals, "'=' after a key")
        start = after(BLANK, text, equals + 1)
        parsed = value(text, start, depth + 1)
        pairs.append((Member(keys, at, start, parsed.end), parsed.data))
        at = after(BLANK, text, parsed.end)
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise wrong(text, at, "a comma or the end of an inline table")
        at = after(BLANK, text, at + 1)
    return pairs, at


def _inline(text: str, at: int, depth: int) -> Value:
    table: t.Dict[str, t.Any] = {}
    dotted = [table]
    pairs, end = members(text, at, depth)
    for member, data in pairs:
        inner = table
        for name in member.keys[:-1]:
            if name not in inner:
                inner[name] = {}
                dotted.append(inner[name])
            inner = inner[name]
            if not any(inner is each for each in dotted):
                raise wrong(text, member.start, "a key that is not there yet")
        if member.keys[-1] in inner:
            raise wrong(text, member.start, "a key that is not there yet")
        inner[member.keys[-1]] = data
    return Value(table, end + 1)
