# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The form of an expression. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .tokens import BadWord, Token, tokens

DEEPEST: Final = 40
_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LITERALS: Final = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: str | int | float | bool | None


@dataclass(frozen=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True)
class Select:
    """A member of an object, or an entry of a map by a key that looks like a name."""

    operand: Node
    field: str


@dataclass(frozen=True)
class Index:
    """An entry of a map or list."""

    operand: Node
    key: Node


@dataclass(frozen=True)
class Call:
    """A function, a method where it has a target, or an operator under its sign."""

    name: str
    arguments: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]


Node = Literal | Name | Select | Index | Call | Items


def parse(expression: str) -> Node:
    """Return an expression's form. BadWord: it has none that is known."""
    return _Parser(tuple(tokens(expression))).whole()


class _Parser:
    def __init__(self, words: Sequence[Token]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._word.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _word(self) -> Token:
        return self._words[self._at]

    def _next(self) -> Token:
        word = self._word
        self._at += 1
        return word

    def _is(self, *texts: str) -> bool:
        return self._word.kind in ("sign", "name") and self._word.text in texts

    def _take(self, text: str) -> bool:
        taken = self._is(text)
        self._at += taken
        return taken

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(f"expected {text!r}")

    def _unexpected(self, more: str = "") -> BadWord:
        where = repr(self._word.text) if self._word.kind != "end" else "the end"
        return BadWord(f"{where} is unexpected" + (f", {more}" if more else ""))

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadWord(f"it is nested more than {DEEPEST} deep")
        node = self._binary(0)
        if self._take("?"):
            yes = self._expression()
            self._expect(":")
            node = Call("?:", (node, yes, self._expression()))
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        while self._is(*_LEVELS[level]):
            sign = self._next().text
            node = Call(sign, (node, self._binary(level + 1)))
        return node

    def _unary(self) -> Node:
        signs = []
        while self._is("!", "-"):
            signs.append(self._next().text)
        node = self._member()
        for sign in reversed(signs):
            node = Call(f"{sign}_", (node,))
        return node

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._take("."):
                node = self._selected(node)
            elif self._take("["):
                node = Index(node, self._expression())
                self._expect("]")
            else:
                return node

    def _selected(self, node: Node) -> Node:
        if self._word.kind != "name":
            raise self._unexpected("expected a name after '.'")
        name = self._next().text
        if self._take("("):
            return Call(name, self._list(")"), node)
        return Select(node, name)

    def _primary(self) -> Node:
        word = self._next()
        if word.kind == "string":
            return Literal(word.text)
        if word.kind == "int":
            return Literal(int(word.text, 0) if word.text.startswith("0x") else int(word.text))
        if word.kind == "float":
            return Literal(float(word.text))
        if word.kind == "name":
            return self._named(word.text)
        if word.text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if word.text == "[":
            return Items(self._list("]"))
        self._at -= 1
        raise self._unexpected()

    def _named(self, name: str) -> Node:
        if name in _LITERALS:
            return Literal(_LITERALS[name])
        if self._take("("):
            return Call(name, self._list(")"))
        return Name(name)

    def _list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._take(end):
            if items:
                self._expect(",")
                if self._take(end):
                    break
            items.append(self._expression())
        return tuple(items)
