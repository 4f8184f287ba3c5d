# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Versions and branches of the driver: which run an architecture of GPUs, and where they stand on a day.

They run it by NVIDIA's lists of supported products. A branch is supported or not, a version may be below the floor of a
security bulletin.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.packages.apt import upstream

FIRST = {"blackwell": 570}
LAST = {"kepler": 470, "maxwell": 580, "pascal": 580, "volta": 580}
PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
ONLY = {"blackwell": "open", **dict.fromkeys(PROPRIETARY_ONLY, "proprietary")}


class NoSupport(NodeError):
    """None of the versions runs a GPU of the node."""


class UnknownVersion(InputError):
    """A version that the package lists do not have."""


class NoCommonVersion(NodeError):
    """The package lists have no version that the packages share."""


class NotOffered(NodeError):
    """Packages that the package lists do not have."""


# What is refused by package lists that may be old.
BY_LISTS = (NoSupport, UnknownVersion, NoCommonVersion, NotOffered)


Gpus = t.Sequence[t.Tuple[str, str]]


class Version(str):
    """A version of the driver, or a branch, as its text, which is parsed where it comes in.

    ``branch`` is empty if it does not say. ``numbers`` compare; what does not begin with one is older than all.
    """

    branch: str
    numbers: t.Tuple[int, ...]

    def __new__(cls, text: str = "") -> Version:
        """Return the version of a text."""
        self = super().__new__(cls, text)
        match = re.match(r"\d+", text.split(":", 1)[-1])
        self.branch = match[0] if match else ""
        digits = re.match(r"[0-9.]*", text)
        self.numbers = tuple(int(part) for part in (digits[0] if digits else "").split(".") if part)
        return self

    @classmethod
    def of(cls, package: t.Optional[str]) -> Version:
        """Return the driver's version in a package's, empty if there is none."""
        return cls(upstream(package or ""))

    def fits(self, prefix: str) -> bool:
        """Return whether it is the version or of the branch that ``prefix`` names; an empty one fits all."""
        return not prefix or f"{self}.".startswith(f"{prefix}.")


NO_VERSION = Version()


def describe_range(architecture: str) -> str:
    """Return which branches run an architecture, for people; empty if all do."""
    if architecture in FIRST:
        return f"{architecture} GPUs need branch {FIRST[architecture]} or later"
    if architecture in LAST:
        return f"{LAST[architecture]} is the last branch for {architecture} GPUs"
    return ""


def newest_branch_for(gpus: Gpus) -> Version:
    """Return the last branch that runs all GPUs, empty if newer branches run them too."""
    branches = [LAST[architecture] for _address, architecture in gpus if architecture in LAST]
    return Version(str(min(branches))) if branches else NO_VERSION


def unsupported_gpus(version: Version, gpus: Gpus) -> t.List[t.Tuple[str, str]]:
    """Return the GPUs, given as (address, architecture), that a version or branch does not run."""
    number = int(version.branch or 0)
    return [
        (address, architecture)
        for address, architecture in gpus
        if number and not FIRST.get(architecture, 0) <= number <= LAST.get(architecture, number)
    ]


def best_versions(versions: t.Sequence[Version], gpus: Gpus) -> t.List[Version]:
    """Return the versions that run most of the GPUs, in their order; none if they run no GPU."""
    counts = {version: len(gpus) - len(unsupported_gpus(version, gpus)) for version in versions}
    most = max(counts.values(), default=0)
    return [version for version, count in counts.items() if count == most and (count or not gpus)]


def unsupported_error(versions: t.Sequence[Version], gpus: Gpus) -> NoSupport:
    """Return the error for versions that run no GPU of the node."""
    address, architecture = unsupported_gpus(versions[0], gpus)[0]
    branch = LAST.get(architecture) or FIRST.get(architecture)
    return NoSupport(
        f"the driver {', '.join(versions)} does not run the {architecture} GPU {address}",
        cause=describe_range(architecture),
        hint=f"ask for such a branch, as with version {branch}, from a source that has it",
    )


def module_type(option: str, gpus: Gpus, installed_types: t.AbstractSet[str] = frozenset()) -> str:
    """Return open or proprietary for GPUs given as (address, architecture).

    Where they run with both, it is the type that is ``installed_types``, if one alone is.
    """
    for address, architecture in gpus:
        only = ONLY.get(architecture)
        option = only if only and option == "auto" else option
        if only and option != only:
            raise NodeError(
                f"the {option} kernel modules do not run on the {architecture} GPU {address}",
                cause=f"{architecture} GPUs run with the {only} ones only",
                hint=f"set kernel_modules to {only}, or take one of the GPUs out",
            )
    installed = next(iter(installed_types)) if len(installed_types) == 1 else "open"
    return installed if option == "auto" else option


class Branch(t.NamedTuple):
    """A branch; what is not known is empty or None. ``ended`` is one that ended at a time that is not known."""

    kind: str = ""
    first_release: t.Optional[datetime.date] = None
    end_of_support: t.Optional[datetime.date] = None
    ended: bool = False


class Bulletin(t.NamedTuple):
    """A security bulletin; ``floors`` are the first versions without its vulnerabilities, by branch."""

    id: str
    date: datetime.date
    url: str
    floors: t.Mapping[str, Version]


class Table(t.NamedTuple):
    """What was known on a day; the bulletins in the order of their dates."""

    as_of: datetime.date
    branches: t.Mapping[str, Branch]
    bulletins: t.Tuple[Bulletin, ...]


OLD = datetime.timedelta(days=180)  # about as long as NVIDIA takes for two bulletins
UNKNOWN = Branch()
NVIDIAS = "nvidia_driver_source: repository and nvidia_driver_repository: nvidia"


def support_status(version: Version, table: Table, today: datetime.date) -> t.Dict[str, t.Any]:
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


def security_status(version: Version, table: Table) -> t.Dict[str, t.Any]:
    """Return the floor of a version's branch and whether it is below, JSON-able; None is what is not known.

    ``unlisted`` are the bulletins since the branch's last floor, or its first release, that have none for it.
    """
    bulletin = security_floor(version.branch, table)
    floor = bulletin.floors[version.branch] if bulletin else None
    return {
        "floor": floor,
        "bulletin": bulletin.id if bulletin else None,
        "date": str(bulletin.date) if bulletin else None,
        "url": bulletin.url if bulletin else None,
        "below": version.numbers < floor.numbers if floor else None,
        "unlisted": [missed.id for missed in uncovered_bulletins(version.branch, table)],
    }


def security_floor(branch: str, table: Table) -> t.Optional[Bulletin]:
    """Return the bulletin with the highest floor of a branch, the first of equals, None if no one has any."""
    listing = [bulletin for bulletin in table.bulletins if branch in bulletin.floors]
    return max(listing, key=lambda listed: listed.floors[branch].numbers, default=None)


def uncovered_bulletins(branch: str, table: Table) -> t.List[Bulletin]:
    """Return the bulletins without a floor for a branch that came after its last one, or its first release."""
    first = table.branches.get(branch, UNKNOWN).first_release
    days = [bulletin.date for bulletin in table.bulletins if branch in bulletin.floors]
    days += [first] if first else []
    return [bulletin for bulletin in table.bulletins if days and bulletin.date > max(days)]


def longest_supported_branch(table: Table, today: datetime.date, gpus: Gpus) -> Version:
    """Return the branch to move to: of those that run all GPUs the one that is supported longest, empty for none."""
    rows = ((row, Version(name)) for name, row in table.branches.items())
    candidates = [
        (row.end_of_support, branch)
        for row, branch in rows
        if row.end_of_support and row.end_of_support >= today and not row.ended
        if row.kind != "new feature" and not unsupported_gpus(branch, gpus)
    ]
    return max(candidates)[1] if candidates else NO_VERSION


def table_age(table: Table, today: datetime.date) -> t.Dict[str, t.Any]:
    """Return how old the table is, JSON-able, and whether that is too old to tell what is newest."""
    days = max((today - table.as_of).days, 0)
    return {"as_of": str(table.as_of), "age": days, "old": days > OLD.days}


def version_warnings(
    version: Version,
    newest: Version,
    table: t.Optional[Table],
    today: datetime.date,
    gpus: Gpus,
    offered: Version = NO_VERSION,
) -> t.List[str]:
    """Return the warnings about a version.

    ``newest`` is the one of its branch that an update brings, empty if the sources are not asked, ``offered`` one
    that these have without modules that are built already.
    """
    if table is None or not version:
        return []
    bulletin = security_floor(version.branch, table)
    row = table.branches.get(version.branch, UNKNOWN)
    messages = []
    least = bulletin.floors[version.branch] if bulletin else None
    if bulletin and least and version.numbers < least.numbers:
        messages.append(
            f"the driver {version} is below {least}, the first of its branch without the vulnerabilities of NVIDIA's "
            f"security bulletin {bulletin.id} of {bulletin.date} ({bulletin.url}). Next step: "
            f"{_update_advice(least, newest, offered)}"
        )
    if row.ended or (row.end_of_support is not None and today > row.end_of_support):
        messages.append(_end_of_support_warning(version, row, table, today, gpus))
    return messages


def _update_advice(least: Version, newest: Version, offered: Version) -> str:
    """Return how to get a version that is no older than the floor."""
    if newest.numbers >= least.numbers:
        return f"nvidia_driver_version: '{least.branch}' with nvidia_driver_update: true brings {newest}"
    if not newest:
        return f"install {least} or later"
    if offered.numbers >= least.numbers:
        return (
            f"the sources have {offered} without modules for the running kernel yet: wait for them, or take it with "
            f"nvidia_driver_version: '{offered}', whose modules DKMS builds"
        )
    return (
        f"make a source known that has it, such as NVIDIA's repository, by {NVIDIAS}, as the sources have {newest} "
        "at most"
    )


def _end_of_support_warning(
    version: Version, row: Branch, table: Table, today: datetime.date, gpus: Gpus
) -> str:
    since = f" since {row.end_of_support}" if row.end_of_support else ""
    text = f"the driver {version} is of branch {version.branch}, which NVIDIA does not support any more{since}"
    later = ", ".join(missed.id for missed in uncovered_bulletins(version.branch, table))
    text += f"; it has no release for the security bulletins since then, {later}" if later else ""
    other = longest_supported_branch(table, today, gpus)
    if not other:
        return text
    end = table.branches[other].end_of_support
    return (
        f"{text}. Next step: set nvidia_driver_version: '{other}', which is supported until {end}; where the node's "
        f"sources lack it, with {NVIDIAS}"
    )


def version_notes(
    newer: str, version: str, table: t.Optional[Table], today: datetime.date
) -> t.List[str]:
    """Return the notes about a newer version and an old table, which are no warnings."""
    result = []
    if newer:
        result.append(
            f"the driver {newer} is available, and {version} is installed; nvidia_driver_update: true brings it"
        )
    if table is not None and table_age(table, today)["old"]:
        result.append(
            f"the table of driver branches and security bulletins is of {table.as_of}; a later release of the "
            "collection, or a table of your own in releases, says what came since"
        )
    return result
