# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keys and values of TOML 1.0 in a text, with where each of them ends.

ValueError, with line and column, where there is none.
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


class Value(t.NamedTuple):
    """What stands at a place, and where it ends. A date or a time is its text."""

    data: t.Any
    end: int


class Member(t.NamedTuple):
    """A key of an inline table, where it begins, and its value."""

    keys: Keys
    start: int
    value: int
    end: int


def place(text: str, at: int) -> str:
    """Return a place as people say it."""
    at = min(at, len(text))
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def wrong(text: str, at: int, expected: str) -> ValueError:
    """Return the error for a place."""
    return ValueError(f"expected {expected} at {place(text, at)}")


def after(pattern: t.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern, which matches nothing too, ends."""
    found = pattern.match(text, at)
    return found.end() if found else at


def key(text: str, at: int) -> t.Tuple[Keys, int]:
    """Return the parts of a key, and where it ends."""
    parts: t.List[str] = []
    while True:
        found = BARE.match(text, at) or BASIC.match(text, at) or LITERAL.match(text, at)
        if found is None:
            raise wrong(text, at, "a key")
        parts.append(_text(found, text))
        at = found.end()
        dot = after(BLANK, text, at)
        if text[dot : dot + 1] != ".":
            return tuple(parts), at
        at = after(BLANK, text, dot + 1)


def _text(found: t.Match[str], text: str) -> str:
    if found.re is BARE:
        return found[0]
    return found[1] if found.re is LITERAL else _unescaped(found[1], text, found.start())


def _unescaped(content: str, text: str, at: int) -> str:
    def one(found: t.Match[str]) -> str:
        short, four, eight, unknown = found.groups()
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

    return ESCAPE.sub(one, content) if "\\" in content else content


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
            found = long.match(text, at)
            if found is None or UNPRINTABLE.search(found[0]):
                raise wrong(text, at, f"a string that ends with {fence * 3}")
            content = re.sub(r"\A\r?\n", "", found[1]).replace("\r\n", "\n") + found[2]
            return Value(content if fence == "'" else _unescaped(content, text, at), found.end())
        if text.startswith(fence, at):
            found = short.match(text, at)
            if found is None:
                raise wrong(text, at, f"a string that ends with {fence} in its line")
            return Value(_text(found, text), found.end())
    raise wrong(text, at, "a string")


def _array(text: str, at: int, depth: int) -> Value:
    items: t.List[t.Any] = []
    at = after(GAP, text, at + 1)
    while text[at : at + 1] != "]":
        found = value(text, at, depth + 1)
        items.append(found.data)
        at = after(GAP, text, found.end)
        if text[at : at + 1] == ",":
            at = after(GAP, text, at + 1)
        elif text[at : at + 1] != "]":
            raise wrong(text, at, "a comma or the end of a list")
    return Value(items, at + 1)


def members(text: str, at: int, depth: int = 0) -> t.Tuple[t.List[t.Tuple[Member, t.Any]], int]:
    """Return the members of the inline table that begins at a place with what they hold, and where its brace is."""
    found: t.List[t.Tuple[Member, t.Any]] = []
    at = after(BLANK, text, at + 1)
    while text[at : at + 1] != "}" or found:
        keys, end = key(text, at)
        equals = after(BLANK, text, end)
        if text[equals : equals + 1] != "=":
            raise wrong(text, equals, "'=' after a key")
        start = after(BLANK, text, equals + 1)
        held = value(text, start, depth + 1)
        found.append((Member(keys, at, start, held.end), held.data))
        at = after(BLANK, text, held.end)
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise wrong(text, at, "a comma or the end of an inline table")
        at = after(BLANK, text, at + 1)
    return found, at


def _inline(text: str, at: int, depth: int) -> Value:
    table: t.Dict[str, t.Any] = {}
    dotted = [table]
    found, end = members(text, at, depth)
    for one, data in found:
        inner = table
        for name in one.keys[:-1]:
            if name not in inner:
                inner[name] = {}
                dotted.append(inner[name])
            inner = inner[name]
            if not any(inner is each for each in dotted):
                raise wrong(text, one.start, "a key that is not there yet")
        if one.keys[-1] in inner:
            raise wrong(text, one.start, "a key that is not there yet")
        inner[one.keys[-1]] = data
    return Value(table, end + 1)
