# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML: read with the interpreter's own library where it has one, edited so that everything else survives."""

from __future__ import annotations

import functools
import importlib
import typing as t

from ..._base.errors import NodeError
from ..._base.text import json_data, toml_data
from ..._base.text.shown import cut
from .. import toml_text
from ..edits import Change, Removal, apply

LONGEST = 1 << 20  # characters; containerd's whole configuration, written out, has 20 KiB
MOST_DOTS = 500
HINT = "fix the file; it was left as it is"
# What libraries raise for a strange text, besides what they say that they do.
STRANGE = (*json_data.MISREAD, RecursionError)


def parse(text: str, path: str) -> t.Dict[str, t.Any]:
    """Return a file's content.

    Raises:
        NodeError: if it is damaged, with line and column.
    """
    try:
        return _loads(text)
    except STRANGE as error:
        raise NodeError(f"{path} is not valid TOML", cause=cut(str(error)), hint=HINT) from error


@functools.lru_cache(maxsize=8)  # a run reads the same texts again and again, and changes none
def _loads(text: str) -> t.Dict[str, t.Any]:
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST >> 20} MiB")
    for number, line in enumerate(text.splitlines(), 1):
        # Keys of many parts take the libraries the square of the parts.
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"line {number} has more than {MOST_DOTS} dots")
    try:
        loads = importlib.import_module("tomllib").loads
    except ImportError:  # Python 3.9 and 3.10
        loads = toml_data.loads
    data: t.Dict[str, t.Any] = loads(text)
    for level in json_data.levels(data):
        if any(isinstance(item, int) and item.bit_length() > 64 for item in level):
            raise ValueError("a number has more than 64 bits")
    return data


def edit(text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()) -> str:
    """Return the text with values set at paths of keys and keys removed; comments, order and other keys stay."""
    try:
        after = toml_text.edit(text, changes, removals)
        if _loads(after) != apply(_loads(text), changes, removals):
            raise ValueError("an edit would have changed other keys as well")
    except STRANGE as error:
        raise NodeError(
            "the file is laid out in a way that can't be edited safely",
            cause=cut(str(error)),
            hint="write each of its tables once, under a heading of its own; the file was left as it is",
        ) from error
    return after
