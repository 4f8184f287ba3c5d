# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML: read with whatever the interpreter has, edited with tomlkit so that everything else survives."""

from __future__ import annotations

import importlib
import typing as t

from .._core.errors import NodeError
from .._core.runtimes.edits import Change, Removal, apply, remove
from .._core.text import json_data
from .._core.text.shown import cut

LONGEST = 256 << 10  # characters; containerd's whole configuration, written out, has 20 KiB
MOST_DOTS = 500


def parse(text: str, path: str) -> t.Dict[str, t.Any]:
    """Return a file's content; a damaged one is a NodeError with line and column."""
    for name in ("tomllib", "tomlkit"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        try:
            _check_text(text)
            data = library.loads(text)
            for level in json_data.levels(data):
                if any(isinstance(one, int) and one.bit_length() > 64 for one in level):
                    raise ValueError("a number has more than 64 bits")
        except _strange(library) as error:
            hint = "fix the file; it was left as it is"
            raise NodeError(
                f"{path} is not valid TOML", cause=cut(str(error)), hint=hint
            ) from error
        return t.cast(t.Dict[str, t.Any], data)
    raise NodeError(
        "no TOML library on the node", hint="install the environment first (gpu.node.device_plugin)"
    )


def _check_text(text: str) -> None:
    """Refuse what takes the libraries long: keys of many parts take them the square of the parts."""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST >> 10} KiB")
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"line {number} has more than {MOST_DOTS} dots")


def _strange(library: t.Any) -> t.Tuple[t.Type[Exception], ...]:
    """Return what a library raises for a strange text, besides what it says that it does."""
    own = getattr(getattr(library, "exceptions", None), "TOMLKitError", ValueError)
    return (own, ValueError, RecursionError, LookupError, TypeError, AttributeError)


def edit(text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()) -> str:
    """Return the text with values set at paths of keys and keys removed; comments, order and other keys stay.

    Needs tomlkit: see _capability.run.
    """
    tomlkit = importlib.import_module("tomlkit")
    try:
        document = tomlkit.parse(text)
        for path, value in changes:
            table = document
            for depth, key in enumerate(path[:-1]):
                if key not in table:
                    table[key] = tomlkit.table(is_super_table=depth + 2 < len(path))
                table = table[key]
                if not isinstance(table, t.Mapping):
                    raise NodeError(
                        f"{'.'.join(path[: depth + 1])} is not a table",
                        cause=f"{path[-1]} has to be set in it",
                        hint="fix the file; it was left as it is",
                    )
            table[path[-1]] = value
        for path, kept in removals:
            remove(document, path, kept)
        after = str(tomlkit.dumps(document))
        wanted = apply(tomlkit.parse(text).unwrap(), changes, removals)
        if tomlkit.parse(after).unwrap() != wanted:
            raise ValueError("an edit would have changed other keys as well")
    except _strange(tomlkit) as error:
        raise NodeError(
            "the file is laid out in a way that cannot be edited safely",
            cause=cut(str(error)),
            hint="bring the parts of its tables together; the file was left as it is",
        ) from error
    return after
