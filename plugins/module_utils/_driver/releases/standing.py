# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the driver comes from with ``source: auto``, and where its version stands: its support, a bulletin's floor."""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from ..._base import distributions
from ..._base.packages.repository import Repository
from ..._base.steps import Step
from .. import branches
from ..branches import NO_VERSION, Gpus, Version
from ..names import PLACE
from ..state import Desired, Observed
from .table import Branch, Bulletin, Table

AUTO = "auto"
Nvidias = t.Callable[[], t.Optional[Repository]]
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
            f"the driver {newer} is offered, and {version} is installed; nvidia_driver_update: true brings it"
        )
    if table is not None and age(table, today)["old"]:
        found.append(
            f"the table of driver branches and security bulletins is of {table.as_of}; a later release of the "
            "collection, or a table of your own in releases, says what came since"
        )
    return found


class Source(t.NamedTuple):
    """A source, the version or branch to have of it, and why; ``fresh`` says that the node has no driver yet.

    Without a ``repository`` to name, the files of the one that the node's driver is from stay as they are.
    """

    name: str
    version: Version
    repository: t.Optional[Repository] = None
    why: str = ""
    fresh: bool = False

    def told(self, steps: t.Iterable[Step]) -> t.Tuple[Step, ...]:
        """Return the steps, with why the node gets a repository that nobody has named."""
        found = [*steps]
        for at, one in enumerate(found):
            if self.fresh and one.action == "repository":
                found[at] = dataclasses.replace(one, summary=f"{one.summary}, as {self.why}")
        return tuple(found)


def named_source(values: t.Mapping[str, t.Any]) -> str:
    """Return the source that options name, with auto that of which anything is said."""
    said = [one for one in ("repository", "runfile") if values[one] is not None]
    return said[0] if values["source"] == AUTO and said else str(values["source"])


def has_run(observed: Observed) -> bool:
    """Tell whether an earlier run has begun to install the driver's packages, or has taken them over."""
    record = observed.record
    return bool(record.packages or record.holds or record.adopted or record.earlier)


def chosen(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source; ``nvidias`` returns NVIDIA's repository, None where none is known for the system."""
    there = (name for name, one in observed.packages.items() if not one.gone)
    if has_run(observed) or any(map(observed.type_of, there)):
        return _kept(observed, desired, nvidias)
    if observed.nvidia_installer or (observed.loaded and observed.libraries):
        if observed.loaded and observed.libraries and not desired.adopt:
            why = f"the driver {observed.loaded[0]} is loaded, and of no package that is known"
            return Source("preinstalled", desired.version, why=why)
        return Source("distribution", desired.version, why="a driver of no package is there")
    return _fresh(observed, desired, nvidias)


def _kept(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source that the driver on the node is from."""
    files = observed.repository.files
    if not (observed.record.repository or files):
        return Source("distribution", desired.version, why="the node's driver is from there")
    lists = (PLACE.sources, *PLACE.rpm_repositories.values())
    there = [files[one] for one in lists if one in files]
    repository = nvidias()
    if repository and there and not any(repository.url in text for text in there):
        repository = None
    version = desired.version
    if not version:
        # The branch of the driver on the node where that runs the GPUs, else the one that is supported longest.
        newest = max(observed.libraries, key=lambda one: one.numbers, default=NO_VERSION)
        version, table = Version(newest.branch), desired.releases
        if not version or not branches.able([version], observed.gpus):
            version = supported(table, observed.today, observed.gpus) if table else NO_VERSION
    return Source("repository", version, repository, "the node's driver is from one")


def _fresh(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source for a node without a driver."""
    version, table = desired.version, desired.releases
    carried = Version(distributions.branch(observed.distribution, observed.codename))
    found = Source("distribution", version, why="no driver is on the node", fresh=True)
    if not carried or (version and version.branch == carried):
        return found
    why = f"{observed.title} has branch {carried}"
    if not version:
        if table is None:
            return found
        stands = support(carried, table, observed.today)
        if not stands["past"] and branches.able([carried], observed.gpus):
            return found
        end = stands["end_of_support"]
        since = f" since {end}" if end else ""
        past = f"which NVIDIA does not support any more{since}"
        why += f", {past if stands['past'] else 'which does not run the GPUs'}"
        version = supported(table, observed.today, observed.gpus)
    repository = nvidias() if version else None
    return Source("repository", version, repository, why, fresh=True) if repository else found
