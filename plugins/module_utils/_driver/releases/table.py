# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of branches and security bulletins: the collection's own, or the user's in its place."""

from __future__ import annotations

import calendar
import datetime
import re
import typing as t

from ..._base.errors import InputError
from ..._base.text.table import ORIGIN, check_keys, chosen, day, mapping
from ..branches import Branch, Bulletin, Table, Version
from .known import TABLE

VERSION = re.compile(r"\d+(?:\.\d+){1,3}", re.ASCII)
BRANCH = re.compile(r"\d{3,4}", re.ASCII)
MONTH = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
KINDS = ("lts", "production", "new feature")
FORM = (
    "true for the collection's own, false for none, or a table with as_of, branches and bulletins"
)


def parse(values: t.Any, key: str = "releases") -> t.Optional[Table]:
    """Return the table, None if the option asks for none.

    Raises:
        InputError: if a key of it is not valid.
    """
    checked = chosen(key, values, TABLE, FORM)
    if checked is None:
        return None
    check_keys(key, checked, ("as_of", "branches", "bulletins"), ("as_of",))
    branches = mapping(f"{key}.branches", checked.get("branches", {}), "branches by their numbers")
    bulletins = checked.get("bulletins", [])
    if not isinstance(bulletins, (list, tuple)):
        raise InputError.of(f"{key}.bulletins", bulletins, "a list of bulletins")
    rows = [_bulletin(f"{key}.bulletins[{n}]", bulletin) for n, bulletin in enumerate(bulletins)]
    return Table(
        day(f"{key}.as_of", checked["as_of"]),
        {
            _branch_name(f"{key}.branches", name): _branch(f"{key}.branches.{name}", branch)
            for name, branch in branches.items()
        },
        tuple(sorted(rows, key=lambda row: row.date)),
    )


def _branch(key: str, value: t.Any) -> Branch:
    row = mapping(key, value, "kind, first_release, end_of_support")
    check_keys(key, row, ("kind", "first_release", "end_of_support", "ended", *ORIGIN))
    kind, ended = row.get("kind", ""), row.get("ended", False)
    if kind not in ("", *KINDS):
        raise InputError.of(f"{key}.kind", kind, f"one of {', '.join(KINDS)}")
    if not isinstance(ended, bool):
        raise InputError.of(f"{key}.ended", ended, "true or false")
    first, end = row.get("first_release"), row.get("end_of_support")
    return Branch(
        kind,
        None if first is None else day(f"{key}.first_release", first),
        None if end is None else _end(f"{key}.end_of_support", end),
        ended,
    )


def _bulletin(key: str, value: t.Any) -> Bulletin:
    row = mapping(key, value, "id, date, url and floors")
    check_keys(key, row, ("id", "date", "url", "floors", *ORIGIN), ("id", "date", "floors"))
    floors = mapping(f"{key}.floors", row["floors"], "versions by their branches")
    return Bulletin(
        _word(f"{key}.id", row["id"], "its number in quotes, such as '5861'"),
        day(f"{key}.date", row["date"]),
        _word(f"{key}.url", row.get("url", ""), "its address"),
        {
            _branch_name(f"{key}.floors", name): _version(f"{key}.floors.{name}", str(name), floor)
            for name, floor in floors.items()
        },
    )


def _version(key: str, branch: str, value: t.Any) -> Version:
    if not isinstance(value, str) or not VERSION.fullmatch(value):
        raise InputError.of(key, value, f"a version in quotes, such as '{branch}.95.05'")
    version = Version(value)
    if version.branch != branch:
        raise InputError.of(key, value, f"a version of branch {branch}")
    return version


def _branch_name(key: str, name: t.Any) -> str:
    if not BRANCH.fullmatch(str(name)):
        raise InputError.of(key, name, "the number of a branch, such as 580")
    return str(name)


def _end(key: str, value: t.Any) -> datetime.date:
    """Return a day; of a month, its last."""
    month = MONTH.fullmatch(str(value))
    if month and 1 <= int(month[2]) <= 12 and int(month[1]):
        year, number = int(month[1]), int(month[2])
        return datetime.date(year, number, calendar.monthrange(year, number)[1])
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError as error:
        raise InputError.of(key, value, "a month or a day, such as 2028-06") from error


def _word(key: str, value: t.Any, expected: str) -> str:
    if not isinstance(value, str):
        raise InputError.of(key, value, expected)
    return value
