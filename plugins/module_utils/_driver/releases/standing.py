# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a version of the driver stands on a day: is its branch supported, is it below a bulletin's floor."""

from __future__ import annotations

import datetime
import typing as t

from .. import branches
from ..branches import NO_VERSION, Gpus, Version
from .table import Branch, Bulletin, Table

OLD = datetime.timedelta(days=180)  # about as long as NVIDIA takes for two bulletins
UNKNOWN = Branch()
NVIDIAS = "nvidia_driver_source: repository and nvidia_driver_repository: nvidia"


def support(version: Version, table: Table, today: datetime.date) -> t.Dict[str, t.Any]:
    """Return the branch of a version and whether it is past its support, JSON-able; None is what is not known."""
    row = table.branches.get(version.branch, UNKNOWN)
    end = row.end_of_support
    return {
        "branch": version.branch,
        "kind": row.kind,
        "first_release": str(row.first_release) if row.first_release else None,
        "end_of_support": str(end) if end else None,
        "past": True if row.ended else None if end is None else today > end,
        "days": None if end is None else (end - today).days,
    }


def security(version: Version, table: Table) -> t.Dict[str, t.Any]:
    """Return the floor of a version's branch and whether it is below, JSON-able; None is what is not known.

    ``unlisted`` are the bulletins since the branch's last floor, or its first release, that have none for it.
    """
    found = floor(version.branch, table)
    return {
        "floor": found.floors[version.branch] if found else None,
        "bulletin": found.id if found else None,
        "date": str(found.date) if found else None,
        "url": found.url if found else None,
        "below": below(version, table) if found else None,
        "unlisted": [one.id for one in unlisted(version.branch, table)],
    }


def floor(of: str, table: Table) -> t.Optional[Bulletin]:
    """Return the bulletin with the highest floor of a branch, the first of equals, None where no one has any."""
    listing = [one for one in table.bulletins if of in one.floors]
    return max(listing, key=lambda one: one.floors[of].numbers, default=None)


def below(version: Version, table: Table) -> bool:
    """Tell whether a version is below the floor of its branch."""
    found = floor(version.branch, table)
    return found is not None and version.numbers < found.floors[version.branch].numbers


def unlisted(of: str, table: Table) -> t.List[Bulletin]:
    """Return the bulletins without a floor for a branch that came after its last one, or its first release."""
    first = table.branches.get(of, UNKNOWN).first_release
    days = [one.date for one in table.bulletins if of in one.floors] + ([first] if first else [])
    return [one for one in table.bulletins if days and one.date > max(days)]


def supported(table: Table, today: datetime.date, gpus: Gpus) -> Version:
    """Return the branch to move to: of those that run all GPUs the one that is supported longest, empty for none."""
    rows = ((row, Version(name)) for name, row in table.branches.items())
    found = [
        (row.end_of_support, branch)
        for row, branch in rows
        if row.end_of_support and row.end_of_support >= today and not row.ended
        if row.kind != "new feature" and not branches.unsupported(branch, gpus)
    ]
    return max(found)[1] if found else NO_VERSION


def age(table: Table, today: datetime.date) -> t.Dict[str, t.Any]:
    """Return how old the table is, JSON-able, and whether that is too old to tell what is newest."""
    days = max((today - table.as_of).days, 0)
    return {"as_of": str(table.as_of), "age": days, "old": days > OLD.days}


def warnings(
    version: Version,
    newest: Version,
    table: t.Optional[Table],
    today: datetime.date,
    gpus: Gpus,
    offered: Version = NO_VERSION,
) -> t.List[str]:
    """Return what is wrong with a version.

    ``newest`` is the one of its branch that an update brings, empty where the sources are not asked, ``offered`` one
    that these have without modules that are built already.
    """
    if table is None or not version:
        return []
    found = floor(version.branch, table)
    row = table.branches.get(version.branch, UNKNOWN)
    words = []
    if found is not None and below(version, table):
        least = found.floors[version.branch]
        words.append(
            f"the driver {version} is below {least}, the first of its branch without the vulnerabilities of NVIDIA's "
            f"security bulletin {found.id} of {found.date} ({found.url}). Next step: {_to(least, newest, offered)}"
        )
    if row.ended or (row.end_of_support is not None and today > row.end_of_support):
        words.append(_past(version, row, table, today, gpus))
    return words


def _to(least: Version, newest: Version, offered: Version) -> str:
    """Say how to come to a version at least."""
    if newest.numbers >= least.numbers:
        return f"nvidia_driver_version: '{least.branch}' with nvidia_driver_update: true brings {newest}"
    if not newest:
        return f"install {least} or later"
    if offered.numbers >= least.numbers:
        return (
            f"the sources offer {offered} without modules for the running kernel yet: wait for them, or take it with "
            f"nvidia_driver_version: '{offered}', whose modules DKMS builds"
        )
    return (
        f"make a source known that has it, such as NVIDIA's repository, by {NVIDIAS}, as the sources offer {newest} "
        "at most"
    )


def _past(version: Version, row: Branch, table: Table, today: datetime.date, gpus: Gpus) -> str:
    since = f" since {row.end_of_support}" if row.end_of_support else ""
    text = f"the driver {version} is of branch {version.branch}, which NVIDIA does not support any more{since}"
    later = ", ".join(one.id for one in unlisted(version.branch, table))
    text += f"; it has no release for the security bulletins since then, {later}" if later else ""
    other = supported(table, today, gpus)
    if not other:
        return text
    end = table.branches[other].end_of_support
    return (
        f"{text}. Next step: set nvidia_driver_version: '{other}', which is supported until {end}; where the node's "
        f"sources lack it, with {NVIDIAS}"
    )


def notes(newer: str, version: str, table: t.Optional[Table], today: datetime.date) -> t.List[str]:
    """Return what there is to know, and nothing to warn of."""
    found = []
    if newer:
        found.append(
            f"the driver {newer} is offered, and {version} is installed; nvidia_driver_update: true "
            "brings it"
        )
    if table is not None and age(table, today)["old"]:
        found.append(
            f"the table of driver branches and security bulletins is of {table.as_of}; a later release of the "
            "collection, or a table of your own in releases, says what came since"
        )
    return found
