# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Parses YAML into data, within limits, and with one kind of error for all that can't be parsed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import yaml

DEEPEST: Final = 50
LONGEST_NUMBER: Final = 32


@dataclass(frozen=True)
class Limits:
    """The limits of a text. The value of an alias counts each time, up to twice the characters."""

    characters: int
    nodes: int


class TooMuch(yaml.YAMLError):
    """Valid YAML that is beyond a limit. ``problem_mark`` is where, as in the library's errors."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(problem)
        self.problem, self.problem_mark = problem, mark


@dataclass(frozen=True)
class _Size:
    """The size of a node, with all that is in it."""

    characters: int
    nodes: int
    height: int


class Loader(yaml.SafeLoader):
    """Reads a text up to a limit, and makes plain values of it."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)
        self.limits = limits
        self.sizes: dict[yaml.Node, _Size] = {}
        self.characters = self.nodes = self.depth = self.deepest = 0

    def fetch_flow_sequence_start(self) -> None:
        """As the library does, which looks far ahead, and at each open bracket for each that it finds."""
        self._open_bracket(super().fetch_flow_sequence_start)

    def fetch_flow_mapping_start(self) -> None:
        """As for a sequence."""
        self._open_bracket(super().fetch_flow_mapping_start)

    def _open_bracket(self, fetch: Callable[[], None]) -> None:
        if self.flow_level >= DEEPEST:
            raise TooMuch(f"it is nested more than {DEEPEST} deep", self.get_mark())
        fetch()

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As the library does, which knows no limit; a node's size is known when it is complete."""
        parser: Any = self  # the library's parser is untyped
        event = parser.peek_event()
        alias = isinstance(event, yaml.AliasEvent)
        before, deepest = (self.characters, self.nodes), self.deepest
        if not alias:
            self.depth += 1
            self.deepest = self.depth
            self._add(_Size(len(getattr(event, "value", "")), 1, 0), event)
        node: Any = super().compose_node(parent, index)
        if alias:
            if node not in self.sizes:
                raise TooMuch(f"the alias {event.anchor} stands for itself", event.start_mark)
            self._add(self.sizes[node], event)
        else:
            characters, nodes = self.characters - before[0], self.nodes - before[1]
            self.sizes[node] = _Size(characters, nodes, self.deepest - self.depth + 1)
            self.depth -= 1
        self.deepest = max(deepest, self.deepest)
        return node

    def _add(self, size: _Size, event: Any) -> None:
        self.characters += size.characters
        self.nodes += size.nodes
        self.deepest = max(self.deepest, self.depth + size.height)
        if self.deepest > DEEPEST:
            raise TooMuch(f"it is nested more than {DEEPEST} deep", event.start_mark)
        most = self.limits
        if self.characters > 2 * most.characters or self.nodes > most.nodes:
            raise TooMuch(
                f"it has more than {most.nodes} values or {2 * most.characters >> 10} KiB, "
                "counting what each of its aliases stands for",
                event.start_mark,
            )

    def number(self, node: yaml.ScalarNode) -> int | float:
        """Return a number of few digits: some of many take long, or can't be written again."""
        if len(node.value) > LONGEST_NUMBER:
            why = f"a number has more than {LONGEST_NUMBER} characters"
            raise TooMuch(why, node.start_mark)
        if node.tag.endswith(":int"):
            return self.construct_yaml_int(node)
        return self.construct_yaml_float(node)


for _kind in ("int", "float"):
    Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", Loader.number)


def compose(text: str, limits: Limits) -> yaml.Node | None:
    """Return the root node of a text, None if it is empty.

    Raises:
        YAMLError: if it isn't YAML, or is beyond a limit.
    """
    if len(text) > limits.characters:
        raise TooMuch(f"it is longer than {limits.characters >> 10} KiB")
    try:
        node: yaml.Node | None = Loader(text, limits).get_single_node()
    except (RecursionError, ValueError) as error:
        raise TooMuch(str(error)) from error
    return node


def construct(node: yaml.Node) -> Any:
    """Return the value of a node of compose().

    Raises:
        YAMLError: if it can't have one.
    """
    try:
        return Loader("", Limits(0, 0)).construct_document(node)
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
        raise TooMuch(str(error)) from error


def load(text: str, limits: Limits) -> Any:
    """Return the data of a text, as safe_load() does, with the errors of compose()."""
    node = compose(text, limits)
    return None if node is None else construct(node)
