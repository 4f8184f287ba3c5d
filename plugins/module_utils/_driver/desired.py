# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The desired driver, parsed from the options of gpu.node.nvidia_driver, and the source that ``auto`` stands for."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._base import distributions
from .._base.errors import InputError
from .._base.packages import repository
from .._base.packages.repository import Repository
from .._base.steps import Step
from .._base.text.masking import masked_text
from .branches import (
    NO_VERSION,
    Table,
    Version,
    best_versions,
    longest_supported_branch,
    support_status,
)
from .facts import DriverState
from .module_options import declared
from .module_options.declared import Options
from .packages.names import PLACE
from .releases import table

VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
SHA256 = re.compile(r"[0-9a-f]{64}")
LOCATION = re.compile(r"https?://[^\s\"'@]+|/[^\n]+")
Values = t.Optional[t.Mapping[str, t.Any]]
AUTO = "auto"
FindRepository = t.Callable[[], t.Optional[Repository]]


class Runfile(t.NamedTuple):
    """NVIDIA's installer: its path on the node or its address, and its checksum."""

    location: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class DesiredSource:
    """Where the driver is to come from.

    Attributes:
        name: The source, as the option has it.
        repository: The repository that the user names. None keeps the one that the installed driver is from.
        runfile: NVIDIA's installer, for that source.
        manage_lists: Whether the package sources may be changed.
    """

    name: str = "distribution"
    repository: t.Optional[Repository] = None
    runfile: t.Optional[Runfile] = None
    manage_lists: bool = True


@dataclasses.dataclass(frozen=True)
class DesiredKernel:
    """What the kernel is to run of the driver.

    Attributes:
        module_type: "open", "proprietary" or "auto".
        load: Whether the kernel modules are loaded.
        reload: When loaded modules of another version are exchanged: "never" or "when_idle".
        persistence: Whether the persistence daemon runs.
        module_options: Options of the kernel modules.
        secure_boot: What to do if the firmware does not know the key of the kernel modules.
        precompiled: Whether precompiled kernel modules are preferred to those that DKMS builds.
    """

    module_type: str = "auto"
    load: bool = True
    reload: str = "never"
    persistence: bool = True
    module_options: Options = ()
    secure_boot: str = "refuse"
    precompiled: str = "auto"


@dataclasses.dataclass(frozen=True)
class Desired:
    """The desired driver; each field is the option of its name, or a group of options."""

    state: str
    version: Version
    components: t.Tuple[str, ...]
    source: DesiredSource = DesiredSource()
    kernel: DesiredKernel = DesiredKernel()
    hold: bool = True
    hold_kernel: bool = False
    update: bool = False
    adopt: bool = False
    prerequisites: str = "refuse"
    releases: t.Optional[Table] = None


def parse_desired(params: t.Mapping[str, t.Any]) -> Desired:
    """Return the options as values.

    Raises:
        InputError: if one is not valid, or does not fit another.
    """
    repository = None
    if params["state"] == "present":
        repository = parse_repository(params["repository"], params["source"])
    plain = ("state", "hold", "hold_kernel", "update", "adopt", "prerequisites")
    kernel = ("load", "reload", "persistence", "secure_boot", "precompiled")
    return Desired(
        version=Version(params["version"]),
        components=tuple(params["components"]),
        source=DesiredSource(
            params["source"], repository, _runfile(params), params["manage_sources"]
        ),
        kernel=DesiredKernel(
            params["kernel_modules"],
            module_options=declared.parse(params["module_options"]),
            **{name: params[name] for name in kernel},
        ),
        releases=table.parse(params["releases"]),
        **{name: params[name] for name in plain},
    )


def parse_repository(values: Values, source: str) -> t.Optional[Repository]:
    """Return the repository.

    Raises:
        InputError: if a key of it is not valid, or the source is another one.
    """
    if values is None and source == "repository":
        expected = "its url and its key, or its preset, with source: repository"
        raise InputError.of("repository", None, expected)
    if values is not None and source != "repository":
        name = values.get("preset") or masked_text(values.get("url") or "")
        raise InputError.of("repository", name, "source to be repository with it")
    return None if values is None else repository.parse(values)


def _runfile(params: t.Mapping[str, t.Any]) -> t.Optional[Runfile]:
    values, version = params["runfile"], params["version"]
    if (values is None) != (params["source"] != "runfile"):
        expected = "its location and sha256" if values is None else "source to be runfile with it"
        raise InputError.of("runfile", values and values.get("location"), expected)
    if values is None:
        return None
    location, checksum = values["location"], values["sha256"].lower()
    if not LOCATION.fullmatch(location):
        expected = "a path on the node, or an http(s) address"
        raise InputError.of("runfile.location", location, expected)
    if not SHA256.fullmatch(checksum):
        raise InputError.of("runfile.sha256", values["sha256"], "64 hexadecimal digits")
    if params["state"] == "present" and not VERSION.fullmatch(version):
        expected = "the exact version that the file has, such as 580.95.05"
        raise InputError.of("version", version, expected)
    return Runfile(location, checksum)


class ChosenSource(t.NamedTuple):
    """A source of the driver, and the version or branch to install from it.

    Attributes:
        name: The source, as the option has it.
        version: The version or branch.
        repository: The repository to make known. None keeps the files of the one that the installed driver is from.
        why: The reason for the choice, for people.
        fresh: Whether the node has no driver yet.
        chose_version: Whether the version was chosen here, as the user has asked for none.
    """

    name: str
    version: Version
    repository: t.Optional[Repository] = None
    why: str = ""
    fresh: bool = False
    chose_version: bool = False

    def explain(self, steps: t.Iterable[Step]) -> t.Tuple[Step, ...]:
        """Return the steps, with the reason in the one that adds a repository which the user has not named."""
        return tuple(
            dataclasses.replace(step, summary=f"{step.summary}, as {self.why}")
            if self.fresh and step.action == "repository"
            else step
            for step in steps
        )


def named_source(source: str, repository: t.Any, runfile: t.Any) -> str:
    """Return the source that the options name: with auto the repository or the runfile, if either is set."""
    if source == AUTO and repository is not None:
        return "repository"
    return "runfile" if source == AUTO and runfile is not None else source


def has_run(state: DriverState) -> bool:
    """Return whether an earlier run has begun to install the driver's packages, or has adopted them."""
    record = state.history.record
    return bool(record.packages or record.holds or record.adopted or record.earlier)


def choose_source(state: DriverState, desired: Desired, nvidias: FindRepository) -> ChosenSource:
    """Return the source that fits the node.

    Args:
        nvidias: Returns NVIDIA's repository, or None if there is none for the distribution.
    """
    present = (name for name, package in state.software.packages.items() if not package.gone)
    if has_run(state) or any(map(state.type_of, present)):
        return _installed_source(state, desired, nvidias)
    if state.software.nvidia_installer or (state.loaded.driver and state.loaded.libraries):
        if state.loaded.driver and state.loaded.libraries and not desired.adopt:
            why = f"the driver {state.loaded.driver[0]} is loaded, and of no package that is known"
            return ChosenSource("preinstalled", desired.version, why=why)
        return ChosenSource("distribution", desired.version, why="a driver of no package is there")
    return _fresh_source(state, desired, nvidias)


def _installed_source(
    state: DriverState, desired: Desired, nvidias: FindRepository
) -> ChosenSource:
    """Return the source that the installed driver is from."""
    files = state.software.repository.files
    if not (state.history.record.repository or files):
        return ChosenSource("distribution", desired.version, why="the node's driver is from there")
    lists = (PLACE.sources, *PLACE.rpm_repositories.values())
    texts = [files[path] for path in lists if path in files]
    # Preferences alone belong to a repository that another file of apt's has.
    repository = None if files.keys() == {PLACE.preferences} else nvidias()
    if repository and texts and not any(repository.url in text for text in texts):
        repository = None
    version = desired.version
    if not version:
        # The branch of the driver on the node where that runs the GPUs, else the one that is supported longest.
        libraries, table, machine = state.loaded.libraries, desired.releases, state.machine
        newest = max(libraries, key=lambda library: library.numbers, default=NO_VERSION)
        version = Version(newest.branch)
        if not version or not best_versions([version], machine.gpus):
            version = NO_VERSION
            if table:
                version = longest_supported_branch(table, machine.today, machine.gpus)
    return ChosenSource("repository", version, repository, "the node's driver is from one")


def _fresh_source(state: DriverState, desired: Desired, nvidias: FindRepository) -> ChosenSource:
    """Return the source for a node without a driver."""
    version, table = desired.version, desired.releases
    carried = Version(distributions.branch(state.machine.distribution, state.machine.codename))
    distribution = ChosenSource("distribution", version, why="no driver is on the node", fresh=True)
    if not carried or (version and version.branch == carried):
        return distribution
    why = f"{state.machine.title} has branch {carried}"
    if not version:
        if table is None:
            return distribution
        status = support_status(carried, table, state.machine.today)
        if not status["past"] and best_versions([carried], state.machine.gpus):
            return distribution
        end = status["end_of_support"]
        past = "which NVIDIA does not support any more" + (f" since {end}" if end else "")
        why += f", {past if status['past'] else 'which does not run the GPUs'}"
        version = longest_supported_branch(table, state.machine.today, state.machine.gpus)
    repository = nvidias() if version else None
    if repository is None:
        return distribution
    return ChosenSource("repository", version, repository, why, True, not desired.version)
