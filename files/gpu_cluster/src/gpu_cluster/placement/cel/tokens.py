# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The words of an expression. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    |(?P<string>[rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0x[0-9a-fA-F]+|\d+)u?
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_PLAIN: Final = "\\\"'`?"


_ESCAPED: Final = re.compile(
    r"\\([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00[01][0-9a-fA-F]{5}|[0-3][0-7]{2}|.)", re.DOTALL
)


@dataclass(frozen=True)
class Token:
    """A word: its kind (string, float, int, name, sign, end) and text."""

    kind: str
    text: str


class BadWord(ValueError):
    """A part of an expression that is no word."""


def tokens(expression: str) -> Iterator[Token]:
    """Yield the words of an expression, and an end. BadWord: there is something else."""
    place = 0
    while place < len(expression):
        found = _FORM.match(expression, place)
        if found is None:
            raise BadWord(f"at {expression[place : place + 20]!r}")
        place = found.end()
        kind = str(found.lastgroup)
        if kind != "space":
            yield Token(kind, _unquoted(found[kind]) if kind == "string" else found[kind])
    yield Token("end", "")


def _unquoted(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]
    return _ESCAPED.sub(_escape, text[1:-1])


def _escape(found: re.Match[str]) -> str:
    letter, digits = found[1][0], found[1][1:]
    if digits:
        return chr(int(found[1], 8) if letter.isdigit() else int(digits, 16))
    if letter in _PLAIN:
        return letter
    if letter not in _ESCAPES:
        raise BadWord(f"at the escape \\{letter}")
    return _ESCAPES[letter]
