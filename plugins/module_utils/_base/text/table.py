# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tables of dated data that users may replace."""

from __future__ import annotations

import datetime
import difflib
import typing as t

from ..errors import InputError

# Keys for the source of a row, for those who replace a table; nothing reads them.
ORIGIN = ("source", "read")
WORDS: t.Mapping[str, bool] = {"true": True, "false": False}


def chosen(
    key: str, values: t.Any, own: t.Mapping[str, t.Any], expected: str
) -> t.Optional[t.Mapping[t.Any, t.Any]]:
    """Return the collection's ``own`` for true or no value, None for false, otherwise the user's mapping."""
    values = WORDS.get(values.lower(), values) if isinstance(values, str) else values
    if values is None or values is True:
        return own
    if values is False or values == {}:
        return None
    return mapping(key, values, expected)


def day(key: str, value: t.Any) -> datetime.date:
    """Return the date of a value.

    Raises:
        InputError: if it is none.
    """
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError as error:
        raise InputError.of(key, value, "a day, such as 2026-09-30") from error


def mapping(key: str, value: t.Any, expected: str) -> t.Mapping[t.Any, t.Any]:
    """Return a mapping as it is.

    Raises:
        InputError: if the value is none.
    """
    if not isinstance(value, dict):
        raise InputError.of(key, value, expected)
    return value


def check_keys(
    key: str, row: t.Mapping[t.Any, t.Any], known: t.Sequence[str], needed: t.Sequence[str] = ()
) -> None:
    """Check the keys of a row.

    Raises:
        InputError: if one is not known, with the nearest that is, or one that is needed is missing.
    """
    for name in row:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise InputError.of(f"{key}.{name}", row[name], f"one of {', '.join(known)}{meant}")
    missing = [name for name in needed if name not in row]
    if missing:
        raise InputError.of(f"{key}.{missing[0]}", None, "a value, as it must be there")
