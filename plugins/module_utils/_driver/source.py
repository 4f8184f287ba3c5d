# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the driver comes from with ``source: auto``: what the node has decides, and only on a bare one the day."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base import distributions
from .._base.packages.repository import Repository
from .._base.steps import Step
from . import branches
from .branches import NO_VERSION, Version
from .names import PLACE
from .releases import standing
from .state import Desired, Observed

AUTO = "auto"
Nvidias = t.Callable[[], t.Optional[Repository]]


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
        why = f", as {self.why}" if self.fresh else ""
        return tuple(
            dataclasses.replace(one, summary=one.summary + why)
            if one.action == "repository"
            else one
            for one in steps
        )


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
    there = [
        files[one] for one in (PLACE.sources, *PLACE.rpm_repositories.values()) if one in files
    ]
    repository = nvidias()
    if repository and there and not any(repository.url in text for text in there):
        repository = None
    version = desired.version or _stays(observed, desired)
    return Source("repository", version, repository, "the node's driver is from one")


def _stays(observed: Observed, desired: Desired) -> Version:
    """Return the branch of the driver on the node where that runs the GPUs, else the one that is supported longest."""
    newest = max(observed.libraries, key=lambda one: one.numbers, default=NO_VERSION)
    of = Version(newest.branch)
    if of and branches.able([of], observed.gpus):
        return of
    table = desired.releases
    return standing.supported(table, observed.today, observed.gpus) if table else NO_VERSION


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
        support = standing.support(carried, table, observed.today)
        if not support["past"] and branches.able([carried], observed.gpus):
            return found
        end = support["end_of_support"]
        since = f" since {end}" if end else ""
        past = f"which NVIDIA does not support any more{since}"
        why += f", {past if support['past'] else 'which does not run the GPUs'}"
        version = standing.supported(table, observed.today, observed.gpus)
    repository = nvidias() if version else None
    return Source("repository", version, repository, why, fresh=True) if repository else found
