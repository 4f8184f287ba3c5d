# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the driver comes from by ``source: auto``."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base import distributions
from ..._base.errors import NodeError
from ..._base.packages.repository import Repository
from ..._base.steps import Step
from .. import branches
from ..branches import NO_VERSION, Version
from ..desired import Desired
from ..facts import DriverState
from ..packages.names import PLACE

AUTO = "auto"
Nvidias = t.Callable[[], t.Optional[Repository]]


class Source(t.NamedTuple):
    """A source, the version or branch to have of it, and why; ``fresh`` says that the node has no driver yet.

    Without a ``repository`` to name, the files of the one that the node's driver is from stay as they are.
    ``chose_version`` says that the user has asked for no version.
    """

    name: str
    version: Version
    repository: t.Optional[Repository] = None
    why: str = ""
    fresh: bool = False
    chose_version: bool = False

    def fell_back(self, error: NodeError) -> str:
        """Return the warning that the repository does not have the version that was chosen."""
        return (
            f"source: auto has chosen branch {self.version} of NVIDIA's repository, as {self.why}, which does not have "
            f"it ({error.cause}): the distribution's driver is taken. Next step: set nvidia_driver_source and "
            "nvidia_driver_version to what you want"
        )

    def told(self, steps: t.Iterable[Step]) -> t.Tuple[Step, ...]:
        """Return the steps, with why the node gets a repository that nobody has named."""
        found = [*steps]
        for at, one in enumerate(found):
            if self.fresh and one.action == "repository":
                found[at] = dataclasses.replace(one, summary=f"{one.summary}, as {self.why}")
        return tuple(found)


def named_source(source: str, repository: t.Any, runfile: t.Any) -> str:
    """Return the source that the options name: with auto the repository or the runfile, if either is set."""
    if source == AUTO and repository is not None:
        return "repository"
    return "runfile" if source == AUTO and runfile is not None else source


def has_run(state: DriverState) -> bool:
    """Tell whether an earlier run has begun to install the driver's packages, or has taken them over."""
    record = state.history.record
    return bool(record.packages or record.holds or record.adopted or record.earlier)


def chosen(state: DriverState, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source; ``nvidias`` returns NVIDIA's repository, None where none is known for the system."""
    there = (name for name, one in state.software.packages.items() if not one.gone)
    if has_run(state) or any(map(state.type_of, there)):
        return _kept(state, desired, nvidias)
    if state.software.nvidia_installer or (state.loaded.driver and state.loaded.libraries):
        if state.loaded.driver and state.loaded.libraries and not desired.adopt:
            why = f"the driver {state.loaded.driver[0]} is loaded, and of no package that is known"
            return Source("preinstalled", desired.version, why=why)
        return Source("distribution", desired.version, why="a driver of no package is there")
    return _fresh(state, desired, nvidias)


def _kept(state: DriverState, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source that the driver on the node is from."""
    files = state.software.repository.files
    if not (state.history.record.repository or files):
        return Source("distribution", desired.version, why="the node's driver is from there")
    lists = (PLACE.sources, *PLACE.rpm_repositories.values())
    there = [files[one] for one in lists if one in files]
    # Preferences alone belong to a repository that another file of apt's has.
    repository = None if files.keys() == {PLACE.preferences} else nvidias()
    if repository and there and not any(repository.url in text for text in there):
        repository = None
    version = desired.version
    if not version:
        # The branch of the driver on the node where that runs the GPUs, else the one that is supported longest.
        newest = max(state.loaded.libraries, key=lambda one: one.numbers, default=NO_VERSION)
        version, table = Version(newest.branch), desired.releases
        if not version or not branches.able([version], state.machine.gpus):
            version = (
                branches.supported(table, state.machine.today, state.machine.gpus)
                if table
                else NO_VERSION
            )
    return Source("repository", version, repository, "the node's driver is from one")


def _fresh(state: DriverState, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source for a node without a driver."""
    version, table = desired.version, desired.releases
    carried = Version(distributions.branch(state.machine.distribution, state.machine.codename))
    found = Source("distribution", version, why="no driver is on the node", fresh=True)
    if not carried or (version and version.branch == carried):
        return found
    why = f"{state.machine.title} has branch {carried}"
    if not version:
        if table is None:
            return found
        stands = branches.support(carried, table, state.machine.today)
        if not stands["past"] and branches.able([carried], state.machine.gpus):
            return found
        end = stands["end_of_support"]
        past = "which NVIDIA does not support any more" + (f" since {end}" if end else "")
        why += f", {past if stands['past'] else 'which does not run the GPUs'}"
        version = branches.supported(table, state.machine.today, state.machine.gpus)
    repository = nvidias() if version else None
    if repository is None:
        return found
    return Source("repository", version, repository, why, True, not desired.version)
