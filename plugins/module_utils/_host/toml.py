# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""TOML: read with whatever the interpreter has, edited with tomlkit so that everything else survives."""

from __future__ import annotations

import importlib
import typing as t

from .._core.edits import Removal, apply, remove
from .._core.errors import NodeError


def parse(text: str, path: str) -> t.Dict[str, t.Any]:
    """Return a file's content; a damaged one is a NodeError with line and column."""
    for name in ("tomllib", "tomlkit"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        try:
            return t.cast(t.Dict[str, t.Any], library.loads(text))
        except ValueError as error:
            hint = "mend the file; it was left as it is"
            raise NodeError(f"{path} is not valid TOML", cause=str(error), hint=hint) from error
    raise NodeError(
        "no TOML library on the node", hint="install the environment first (gpu.node.device_plugin)"
    )


def edit(
    text: str,
    changes: t.Sequence[t.Tuple[t.Tuple[str, ...], t.Any]],
    removals: t.Sequence[Removal] = (),
) -> str:
    """Return the text with values set at paths of keys and keys removed; comments, order and other keys stay.

    Needs tomlkit: see _module.interpreter.
    """
    tomlkit = importlib.import_module("tomlkit")
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
                    hint="mend the file; it was left as it is",
                )
        table[path[-1]] = value
    for path, kept in removals:
        remove(document, path, kept)
    after = str(tomlkit.dumps(document))
    wanted = apply(tomlkit.parse(text).unwrap(), changes, removals)
    if tomlkit.parse(after).unwrap() != wanted:
        raise NodeError(
            "the file is laid out in a way that cannot be edited safely",
            cause="an edit would have changed other keys as well",
            hint="bring the parts of its tables together; the file was left as it is",
        )
    return after
