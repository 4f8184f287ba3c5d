# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Differences as lines: what a task changes, or in check mode would."""

from __future__ import annotations

import difflib
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text import json_data
from ansible_collections.gpu.node.plugins.module_utils._base.text.readable import as_yaml
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import counted

from .text import Line

KINDS = {"+": "added", "-": "removed", "@": "place"}
NOTES = {
    "dst_binary": "the file that is there is binary",
    "src_binary": "the new file is binary",
    "dst_larger": "the file that is there is too large to be compared",
    "src_larger": "the new file is too large to be compared",
}


def difference(diffs: t.Any, most: int, context: int = 3) -> t.List[Line]:
    """Return the lines of what a result has as ``diff``; of each difference ``most``, 0 for all."""
    lines: t.List[Line] = []
    for diff in diffs if isinstance(diffs, list) else [diffs]:
        if isinstance(diff, dict):
            lines += cut(_lines(diff, context), most)
    return lines


def cut(lines: t.List[Line], most: int, where: str = "-v") -> t.List[Line]:
    """Return ``most`` lines and how many more there are, which ``where`` shows; all with 0."""
    left = len(lines) - most
    if not most or left <= 1:  # a line is no longer than the word about it
        return lines
    message = f"… {counted(left, 'more line')}, all with {where}"
    return [*lines[:most], Line(message, "note")]


def _lines(diff: t.Mapping[str, t.Any], context: int) -> t.List[Line]:
    lines = [Line(note, "note") for key, note in NOTES.items() if diff.get(key)]
    if "before" in diff and "after" in diff:
        lines += _unified(diff, context)
    if diff.get("prepared"):
        lines += _colored(str(diff["prepared"]).rstrip("\n").split("\n"))
    return lines


def _unified(diff: t.Mapping[str, t.Any], context: int) -> t.List[Line]:
    before, after = _texts(diff["before"], diff["after"])
    unified = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    if not unified:
        return []
    names = [diff.get(key) for key in ("before_header", "after_header")]
    return [*(Line(str(name), "note") for name in dict.fromkeys(names) if name), *_colored(unified)]


def _colored(lines: t.Iterable[str]) -> t.List[Line]:
    return [Line(line, KINDS.get(line[:1], "plain")) for line in lines]


def _texts(before: t.Any, after: t.Any) -> t.Tuple[t.List[str], t.List[str]]:
    """Return both as lines. What is JSON on each side that is not empty is shown as YAML: texts in it as they are."""
    data = [_data(value) for value in (before, after)]
    if all(value is not None or not raw for value, raw in ((data[0], before), (data[1], after))):
        return _yaml_lines(data[0]), _yaml_lines(data[1])
    return _text_lines(before), _text_lines(after)


def _data(value: t.Any) -> t.Any:
    """Return what a value holds: a mapping or list, also where it is a text of JSON; else None."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json_data.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, (dict, list)) else None


def _yaml_lines(value: t.Any) -> t.List[str]:
    return as_yaml(value).split("\n") if value else []


def _text_lines(value: t.Any) -> t.List[str]:
    text = value if isinstance(value, str) else as_yaml(value) if value else ""
    return text.rstrip("\n").split("\n") if text else []
