# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Bounded texts, lists and times in files of ours; any other value is a ValueError."""

from __future__ import annotations

import datetime
import typing as t

from . import json_data
from .shown import printable, shown

LONGEST = 500  # characters of a text
TIME = "%Y-%m-%dT%H:%M:%SZ"
EPOCH = datetime.datetime(1970, 1, 1)


def bounded(text: str) -> str:
    """Return a text without unprintable characters, cut off at the bound."""
    return printable(text[:LONGEST])[:LONGEST]


def second(at: float) -> float:
    """Return a time in whole seconds, as files have it."""
    return float(int(at))


def written(at: float) -> str:
    """Return a time, in seconds since 1970, as text."""
    return (EPOCH + datetime.timedelta(seconds=at)).strftime(TIME)


def seconds(text: str) -> float:
    """Return the time in a text, in seconds since 1970.

    Raises:
        ValueError: if it has another form.
    """
    at = (datetime.datetime.strptime(text, TIME) - EPOCH).total_seconds()
    if at < 0 or written(at) != text:
        raise ValueError(text)
    return at


def version(value: object, known: int) -> None:
    """Check the version of a file's form."""
    if not json_data.is_whole(value) or value != known:
        raise ValueError(f"version {shown(value)} is not known, {known} is")


def keys(name: str, data: object, *expected: str) -> t.Dict[str, t.Any]:
    """Return a mapping that has exactly these keys. ``name`` is its name for errors, also below."""
    if not isinstance(data, dict) or set(data) != set(expected):
        raise ValueError(f"{name}: expected {', '.join(expected)}")
    return data


def by_uuid(name: str, data: object, most: int, nouns: str) -> t.Dict[str, t.Any]:
    """Return a mapping by the UUIDs of GPUs, of at most so many ``nouns``."""
    if not isinstance(data, dict) or len(data) > most:
        raise ValueError(f"expected at most {most} {nouns} by the GPUs' UUIDs")
    for uuid in data:
        if not uuid or bounded(uuid) != uuid:
            raise ValueError(f"{name}: {shown(uuid)} is no UUID of a GPU")
    return data


def text(name: str, value: object) -> str:
    """Return a text within its bounds."""
    if not isinstance(value, str) or bounded(value) != value:
        raise ValueError(f"{name}: expected a text of at most {LONGEST} characters")
    return value


def listed(name: str, value: object, most: int) -> t.List[t.Any]:
    """Return a list of at most so many."""
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{name}: expected a list of at most {most}")
    return value


def time(name: str, value: object) -> float:
    """Return a time, in seconds since 1970."""
    try:
        return seconds(json_data.text(value))
    except ValueError:
        raise ValueError(f"{name}: {shown(value)} is no time such as {written(0)}") from None
