# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""JSON files: edited in place, so that order, indentation and all other keys stay as they are."""

from __future__ import annotations

import json
import re
import typing as t

from .._base.errors import NodeError
from .._base.text import json_data
from .edits import Change, Path, Removal

DECODER = json.JSONDecoder()


class Member(t.NamedTuple):
    """A key of an object in a text, and where it and its value are."""

    key: str
    start: int
    value: int
    end: int


def parse(text: str, path: str) -> t.Dict[str, t.Any]:
    """Return a file's content.

    Raises:
        NodeError: if it is damaged, with line and column.
    """
    hint = "fix the file; it was left as it is"
    try:
        data = json_data.loads(text) if text.strip() else {}
    except ValueError as error:
        where = str(error)  # too much of it
        if isinstance(error, json.JSONDecodeError):
            where = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise NodeError(f"{path} is not valid JSON", cause=where, hint=hint) from error
    if not isinstance(data, dict):
        raise NodeError(f"{path} is not a JSON object", cause=type(data).__name__, hint=hint)
    return data


def line(text: str, path: Path) -> int:
    """Return the line of a key, or of the nearest one around it."""
    at = start = _skip(text, 0)
    for key in path:
        member = _member(text, at, key) if text[at] == "{" else None
        if member is None:
            break
        at, start = member.value, member.start
    return text.count("\n", 0, start) + 1


def edit(text: str, changes: t.Iterable[Change], removals: t.Iterable[Removal] = ()) -> str:
    """Return the text with values set at paths of keys, and keys removed."""
    text = text if text.strip() else "{}\n"
    for path, value in changes:
        text = _remove(text, path, len(path)) if value is None else _set(text, path, value)
    for path, depth in removals:
        text = _remove(text, path, depth)
    return text


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _members(text: str, at: int) -> t.Tuple[t.List[Member], int]:
    """Return the members of the object that begins at a place, and where it ends."""
    members: t.List[Member] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, end = DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        _data, last = DECODER.raw_decode(text, value)
        members.append(Member(key, at, value, last))
        at = _skip(text, last)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members, at


def _member(text: str, at: int, key: str) -> t.Optional[Member]:
    # Where a key is there twice, the last one counts.
    return next((member for member in reversed(_members(text, at)[0]) if member.key == key), None)


def _set(text: str, path: Path, value: t.Any) -> str:
    at = _skip(text, 0)
    for depth, key in enumerate(path):
        member = _member(text, at, key)
        if member is None:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return _insert(text, at, key, value)
        if depth == len(path) - 1:
            shown = _dump(text, value, _line_indent(text, member.start))
            return text[: member.value] + shown + text[member.end :]
        if text[member.value] != "{":
            message = f"{'.'.join(path[: depth + 1])} is not an object"
            cause = f"{path[-1]} must be set in it"
            raise NodeError(message, cause=cause, hint="fix the file; it was left as it is")
        at = member.value
    return text


def _insert(text: str, at: int, key: str, value: t.Any) -> str:
    members, end = _members(text, at)
    newline = _newline(text)
    start = members[-1].start if members else at
    outer = _line_indent(text, start)
    indent = outer if members else outer + _unit(text)
    inline = newline not in text[at:start] if members else _is_one_line(text)
    shown = json.dumps(value) if inline else _dump(text, value, indent)
    shown = f"{json.dumps(key)}: {shown}"
    if members:
        after = members[-1].end
        return f"{text[:after]},{' ' if inline else newline + indent}{shown}{text[after:]}"
    if not inline:
        shown = f"{newline}{indent}{shown}{newline}{outer}"
    return f"{text[: at + 1]}{shown}{text[end:]}"


def _remove(text: str, path: Path, depth: int) -> str:
    chain: t.List[t.Tuple[int, t.List[Member], Member, int]] = []  # the object of each key
    at = _skip(text, 0)
    for key in path:
        members, end = _members(text, at)
        member = _member(text, at, key)
        if member is None:
            return text
        chain.append((at, members, member, end))
        at = member.value
    while len(chain) > depth + 1 and len(chain[-1][1]) == 1:
        chain.pop()
    at, members, member, end = chain[-1]
    place = members.index(member)
    if len(members) == 1:
        return text[: at + 1] + text[end:]
    if place == 0:
        return text[: member.start] + text[members[1].start :]
    return text[: members[place - 1].end] + text[member.end :]


def _dump(text: str, value: t.Any, indent: str) -> str:
    """Return a value as the file would have it: in one line, or indented."""
    if _is_one_line(text):
        return json.dumps(value)
    return json.dumps(value, indent=_unit(text)).replace("\n", _newline(text) + indent)


def _is_one_line(text: str) -> bool:
    return _newline(text) not in text.strip() and text.strip() != "{}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    match = re.match(r"\s*\{\s*?\n([ \t]+)", text)
    return match[1] if match else "  "
