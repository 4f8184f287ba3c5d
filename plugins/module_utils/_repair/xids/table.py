# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of XIDs: the collection's own, or the user's in its place."""

from __future__ import annotations

import datetime
import re
import typing as t

from ..._base.errors import InputError
from ..._base.text.table import ORIGIN, check_keys, chosen, day, mapping
from ..signs import ACTIONS, Action
from .known import RECOVERY_CHANGED, TABLE

NUMBER = re.compile(r"\d{1,5}", re.ASCII)
FORM = "true for the collection's own, false for none, or a table with as_of and xids"


class Row(t.NamedTuple):
    """What an XID asks for; from the branch ``driver`` on, 0 for none, the driver's recovery action covers it.

    From ``times`` of it on, 0 for never, it asks for what is in ``then``, where that is stronger.
    """

    action: Action
    meaning: str = ""
    driver: int = 0
    times: int = 0
    then: Action = Action.NONE


class Table(t.NamedTuple):
    """What was known on a day, by the XIDs' numbers."""

    as_of: t.Optional[datetime.date]
    xids: t.Mapping[int, Row]

    def asks_driver(self, number: int) -> bool:
        """Return whether the driver may have more to say of an XID, so that it is to be asked at once."""
        row = self.xids.get(number)
        return row is None or row.driver > 0 or number == RECOVERY_CHANGED

    def counts(self, number: int) -> bool:
        """Return whether it matters how often an XID was reported."""
        row = self.xids.get(number)
        return row is not None and row.times > 0


def parse(values: t.Any = True, key: str = "xids") -> Table:
    """Return the table, an empty one where there is to be none; InputError names the key that cannot be meant."""
    choice = chosen(key, values, TABLE, FORM)
    if choice is None:
        return Table(None, {})
    check_keys(key, choice, ("as_of", "xids"), ("as_of", "xids"))
    rows = mapping(f"{key}.xids", choice["xids"], "XIDs by their numbers")
    return Table(
        day(f"{key}.as_of", choice["as_of"]),
        {
            _number(f"{key}.xids", name): _row(f"{key}.xids.{name}", row)
            for name, row in rows.items()
        },
    )


def _number(key: str, name: t.Any) -> int:
    if not NUMBER.fullmatch(str(name)):
        raise InputError.of(key, name, "the number of an XID, such as 79")
    return int(name)


def _row(key: str, value: t.Any) -> Row:
    row = mapping(key, value, "action, meaning, driver, times, then")
    check_keys(key, row, (*Row._fields, *ORIGIN), ("action",))
    meaning = row.get("meaning", "")
    if not isinstance(meaning, str):
        raise InputError.of(f"{key}.meaning", meaning, "a few words")
    driver = _count(f"{key}.driver", row.get("driver", 0), "a branch, such as 565, or 0 for none")
    times = _count(f"{key}.times", row.get("times", 0), "how often, or 0 for never")
    then = _action(f"{key}.then", row.get("then", "none"))
    return Row(_action(f"{key}.action", row["action"]), meaning, driver, times, then)


def _count(key: str, value: t.Any, expected: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError.of(key, value, expected)
    return value


def _action(key: str, value: t.Any) -> Action:
    action = ACTIONS.get(value) if isinstance(value, str) else None
    if action is None:
        raise InputError.of(key, value, f"one of {', '.join(ACTIONS)}")
    return action


KNOWN = parse()  # the collection's own, read once: a device plugin asks by it at each look
