# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The meaning of the exit statuses of package managers, besides 0.

From zypper(8) of 1.14, dnf(8) of 4.14, dnf5(8) of 5.2, and apt-get(8), where 100 is the status of all errors.
"""

from __future__ import annotations

import typing as t


class Status(t.NamedTuple):
    """The meaning of a status, and whether the command has succeeded nevertheless."""

    meaning: str
    succeeded: bool = False


STATUSES: t.Mapping[str, t.Mapping[int, Status]] = {
    "zypper": {
        1: Status("a bug in zypper"),
        2: Status("the command line was wrong"),
        3: Status("an argument was wrong"),
        4: Status("libzypp failed"),
        5: Status("root is needed"),
        6: Status("no repository is defined"),
        7: Status("another program has locked libzypp"),
        8: Status("the transaction failed"),
        100: Status("updates are needed"),
        101: Status("security updates are needed"),
        102: Status("a reboot is needed", succeeded=True),
        103: Status("zypper itself was updated", succeeded=True),
        104: Status("nothing of that name was found"),
        105: Status("a signal ended it"),
        106: Status("repositories were skipped that could not be refreshed", succeeded=True),
        107: Status("a script of a package failed", succeeded=True),
    },
    "dnf": {
        3: Status("an error that dnf does not know"),
        100: Status("updates are available"),
        200: Status("another program has locked dnf"),
    },
}


def succeeded(program: str) -> t.Tuple[int, ...]:
    """Return the statuses of a program that has succeeded."""
    known = STATUSES.get(program, {})
    return (0, *(number for number, status in known.items() if status.succeeded))


def describe(program: str, number: int) -> str:
    """Return a status for messages, such as ``status 107, as a script of a package failed``."""
    status = STATUSES.get(program, {}).get(number)
    return f"status {number}, as {status.meaning}" if status else f"status {number}"
