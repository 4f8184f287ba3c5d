# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads a YAML (or JSON) mapping whose keys are all known, with errors that name the line. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import yaml

from .._shared._base.errors import NodeError
from .._shared._base.text import json_data
from .._shared._base.text.config_map import unwrap_hint
from .._shared._base.text.json_data import is_whole
from .._shared._base.text.shown import cut, shown
from . import plain_yaml

LONGEST: Final = 64 << 10
LIMITS: Final = plain_yaml.Limits(LONGEST, 4000)  # hundreds of entries of devices to share
MERGE: Final = "tag:yaml.org,2002:merge"
Pair = tuple[yaml.Node, yaml.Node]


class ConfigError(NodeError):
    """The configuration can't be used as it is."""


def invalid(where: str, data: Any, expected: str) -> ConfigError:
    """Return the error that names a value, where it was given, and what was expected."""
    return ConfigError(f"{where}: {shown(data)} is not valid", cause=f"expected {expected}")


@dataclass(frozen=True)
class Value:
    """One value of the file, with where it stands. What is read from it may raise ConfigError."""

    path: str
    data: Any
    where: str

    def invalid(self, expected: str, data: Any = None) -> ConfigError:
        """Return the error that names it, or a part of it."""
        return invalid(f"{self.where}: {self.path}", self.data if data is None else data, expected)

    def flag(self) -> bool:
        """Return it as true or false."""
        if not isinstance(self.data, bool):
            raise self.invalid("true or false")
        return self.data

    def text(self) -> str:
        """Return it as a text that is not empty."""
        if not isinstance(self.data, str) or not self.data:
            raise self.invalid("a string")
        return self.data

    def one_of(self, allowed: Collection[str]) -> str:
        """Return it as one of some texts."""
        if self.data not in allowed:
            raise self.invalid(f"one of {', '.join(allowed)}")
        return str(self.data)

    def whole(self, most: int, expected: str = "", least: int = 1) -> int:
        """Return it as a whole number."""
        if not is_whole(self.data) or not least <= self.data <= most:
            raise self.invalid(f"{expected}a whole number from {least} to {most}")
        return self.data

    def factor(self) -> float:
        """Return it as a number of times."""
        known = isinstance(self.data, float) or is_whole(self.data)
        if not known or not 0 < self.data <= 100:
            raise self.invalid("a number above 0, up to 100")
        return float(self.data)


class Found(dict[str, Value]):
    """The values of a file by dotted key, without those that are null.

    ``notes`` are warnings about keys and values that may have been meant otherwise.
    """

    def __init__(self, values: Iterable[Value] = (), notes: Iterable[str] = ()) -> None:
        super().__init__((value.path, value) for value in values)
        self.notes = list(notes)

    def items_of(self, path: str) -> Iterator[str]:
        """Yield the keys of a list's items: ``path[0]`` and so on."""
        number = 0
        while f"{path}[{number}]" in self:
            yield f"{path}[{number}]"
            number += 1

    def required(self, at: str, key: str) -> Value:
        """Return the value of an item's key."""
        if f"{at}.{key}" not in self:
            raise ConfigError(f"{self[at].where}: {at}.{key} is missing")
        return self[f"{at}.{key}"]

    def flag(self, path: str) -> bool | None:
        """Return the value of a switch, None if it is not given."""
        return self[path].flag() if path in self else None


def read(text: str, source: str, keys: Collection[str]) -> Found:
    """Return the file's values. ``keys`` are all keys that hold one.

    A key such as ``a.b[].c`` stands in every mapping of the list ``a.b``. Its values are ``a.b[0].c``
    and so on; ``a.b`` and ``a.b[0]`` are there as well, for where the list and its items stand.
    As in NVIDIA's plugin merge keys work, and the case of a key does not matter.
    """
    try:
        root = plain_yaml.compose(_without_tabs(text), LIMITS)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}: line {mark.line + 1}" if mark else source
        problem = "can't be taken" if isinstance(error, plain_yaml.TooMuch) else "not valid YAML"
        raise ConfigError(f"{where}: {problem}", cause=_reason(error)) from error
    if root is None:
        return Found()
    reader = _Reader(source, keys, root)
    return Found(list(reader.walk(root, "", "")), reader.notes)


def _without_tabs(text: str) -> str:
    """Return JSON without the tabs between its words, which YAML does not allow; other texts as they are."""
    if "\t" not in text or len(text) > LONGEST:
        return text
    try:
        json_data.loads(text)
    except ValueError:
        return text
    return text.replace("\t", " ")  # within its words there is none


def _reason(error: yaml.YAMLError) -> str:
    return cut(str(getattr(error, "problem", None) or error).splitlines()[0])


class _Reader:
    def __init__(self, source: str, keys: Collection[str], root: yaml.Node) -> None:
        self.source, self._root = source, root
        self.notes: list[str] = []
        self.keys = frozenset(keys)
        self.sections = {
            key.rsplit(".", depth)[0] for key in keys for depth in range(1, key.count(".") + 1)
        }
        self.folded = {_plainly(key).casefold(): _plainly(key) for key in self.keys | self.sections}

    def walk(self, node: yaml.Node, section: str, at: str) -> Iterator[Value]:
        """Yield the values below a node: ``section`` is its key, ``at`` has the places in lists."""
        if not isinstance(node, yaml.MappingNode):
            if self._plain(node, at or "the file") is None and not section.endswith("[]"):
                return
            name = at or "the file"
            raise ConfigError(
                f"{self._where(node)}: {name} is not a mapping",
                cause=f"expected keys such as {', '.join(self._children(section)[:3])}",
            )
        seen: dict[str, str] = {}
        for key_node, value_node in self._pairs(node, at):
            where = self._where(key_node)
            key = self._key(key_node, section, at)
            path, place = (_below(above, key) for above in (section, at))
            if path in seen:
                raise ConfigError(
                    f"{where}: {cut(place)} is given twice", cause=f"first at {seen[path]}"
                )
            seen[path] = where
            if path in self.sections:
                yield from self.walk(value_node, path, place)
            elif f"{path}[]" in self.sections:
                yield from self._items(value_node, f"{path}[]", place)
            elif path in self.keys:
                data = self._plain(value_node, place)
                if data is not None:
                    yield Value(place, data, self._where(value_node))
            else:
                raise self._unknown(path, section, where)

    def _pairs(self, node: yaml.MappingNode, at: str) -> Iterator[Pair]:
        """Yield the keys and values of a mapping, and of those merged into it the keys that it lacks."""
        merges = [pair for pair in node.value if pair[0].tag == MERGE]
        own = [pair for pair in node.value if pair[0].tag != MERGE]
        if len(merges) > 1:
            first, second = (self._where(key) for key, _value in merges[:2])
            message = f"{second}: {_below(at, '<<')} is given twice"
            raise ConfigError(message, cause=f"first at {first}", hint="merge a list of mappings")
        yield from own
        known = {_written(key).casefold() for key, _value in own}
        for key, value in merges:
            for mapping_node in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(mapping_node, yaml.MappingNode):
                    raise ConfigError(
                        f"{self._where(key)}: {_below(at, '<<')} is not a mapping",
                        cause="expected an alias of a mapping, or a list of them",
                    )
                merged = list(self._pairs(mapping_node, at))
                yield from (pair for pair in merged if _written(pair[0]).casefold() not in known)
                known.update(_written(name).casefold() for name, _value in merged)

    def _key(self, node: yaml.Node, section: str, at: str) -> str:
        """Return a key in its usual case. One in another case is noted."""
        key = _written(node)
        path = _below(_plainly(section), key)
        known = self.folded.get(path.casefold(), path)
        if known == path:
            return key
        name = known.rpartition(".")[2]
        self.notes.append(
            f"{self._where(node)}: the key {_below(at, key)} is read as {_below(at, name)}, "
            "which is how it is written"
        )
        return name

    def _items(self, node: yaml.Node, section: str, at: str) -> Iterator[Value]:
        if not isinstance(node, yaml.SequenceNode):
            if self._plain(node, at) is None:
                return
            raise ConfigError(
                f"{self._where(node)}: {at} is not a list",
                cause=f"expected mappings with {', '.join(self._children(section))}",
            )
        yield Value(at, None, self._where(node))
        for number, item in enumerate(node.value):
            place = f"{at}[{number}]"
            yield Value(place, None, self._where(item))
            yield from self.walk(item, section, place)

    def _unknown(self, path: str, section: str, where: str) -> ConfigError:
        with contextlib.suppress(yaml.YAMLError):
            if hint := unwrap_hint(plain_yaml.construct(self._root)):
                return ConfigError(f"{self.source}: not a configuration", hint=hint)
        known = {_plainly(key) for key in self.keys | self.sections}
        near = nearest(_plainly(path), _plainly(section), known, set(_paths(self._root)))
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        name = _plainly(section) or "the top level"
        cause = f"{name} knows {', '.join(self._children(section))}"
        return ConfigError(f"{where}: unknown key {cut(_plainly(path))}", cause=cause, hint=hint)

    def _children(self, section: str) -> list[str]:
        start = f"{section}." if section else ""
        tails = (key[len(start) :] for key in self.keys if key.startswith(start))
        return sorted({_plainly(key.split(".")[0]) for key in tails})

    def _plain(self, node: yaml.Node, at: str) -> Any:
        try:
            return plain_yaml.construct(node)
        except yaml.YAMLError as error:
            where = f"{self._where(node)}: {at}"
            raise ConfigError(f"{where}: not a plain value", cause=_reason(error)) from error

    def _where(self, node: yaml.Node) -> str:
        return f"{self.source}: line {node.start_mark.line + 1}"


def _plainly(path: str) -> str:
    return path.replace("[]", "")


def _below(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _written(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else "(not a word)"


def _paths(node: yaml.Node, at: str = "") -> Iterator[str]:
    """Yield the keys that a file has, such as sharing.timeSlicing.resources."""
    yield at
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _paths(item, at)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _paths(value, _below(at, _written(key)))


def nearest(
    path: str, section: str, known: Collection[str], present: Collection[str] = ()
) -> list[str]:
    """Return the known keys that were most likely meant, which are several if nothing tells them apart.

    Args:
        path: The unknown key, with its sections.
        section: The section that it is in.
        known: All keys.
        present: The keys that the file has.
    """
    import difflib  # a configuration that is right has no use for it

    word = path.rsplit(".", 1)[-1].lower()
    by_word: dict[str, list[str]] = {}
    for key in sorted(known):
        by_word.setdefault(key.rsplit(".", 1)[-1].lower(), []).append(key)
    close = difflib.get_close_matches(word, by_word, n=5, cutoff=0.6)
    candidates = [key for other in close for key in by_word[other]]
    siblings = [key for key in candidates if key.rpartition(".")[0] == section]
    if not close or close[0] != word:
        return (siblings or candidates)[:1]

    def likeness(key: str) -> tuple[bool, bool, int]:
        """Rank a known key of the same word by how near its section is to that of the file."""
        parent = key.rpartition(".")[0]
        pairs = zip(parent.split("."), section.split("."), strict=False)
        shared = sum(1 for _pair in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return key.startswith(f"{section}."), parent in present, shared

    best = max(map(likeness, by_word[word]))
    return [key for key in by_word[word] if likeness(key) == best][:2]
