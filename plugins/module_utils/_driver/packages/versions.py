# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which packages of the driver to install, in versions that go together."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.steps import Step
from .. import branches as driver_branches
from ..branches import PROPRIETARY_ONLY, NoCommonVersion, UnknownVersion, Version
from ..desired import Desired
from ..facts import DriverState
from . import components
from .adoption import counterparts
from .names import Names

# Where a version is to be had that the sources of a kind do not offer.
ELSEWHERE = {
    "distribution": "choose one of these, or let the driver come from NVIDIA's repository, which has more:"
    " nvidia_driver_source: repository with nvidia_driver_repository: nvidia",
    "repository": "choose one of these, or a repository that has it",
}


class Choice(t.NamedTuple):
    """The packages of the desired driver, each with its version, None if that is not known yet.

    Attributes:
        kind: The type of the kernel modules.
        version: The driver's version.
        targets: The version of each package.
        unknown: The packages that no source has yet.
        names: The packages of the driver.
        kernel: The package with the modules of the running kernel.
        asked: The version that was asked for.
        boot: The kernel that has the modules if the running one has none.
        exactly: Packages that the modules need in one version only.
    """

    kind: str
    version: t.Optional[Version]
    targets: t.Mapping[str, t.Optional[str]]
    unknown: t.Tuple[str, ...]
    names: Names
    kernel: str = ""
    asked: str = ""
    boot: str = ""
    exactly: t.Mapping[str, str] = {}

    @property
    def awaited(self) -> str:
        """What stands for a version that is known only once the sources are."""
        return f"the newest {self.asked} that the sources offer".replace("  ", " ")

    @property
    def prebuilt(self) -> bool:
        """Return whether the kernel modules are made for one kernel each, and need no compiler."""
        return self.kernel in self.names.modules.prebuilt.values()

    @property
    def dkms(self) -> bool:
        """Return whether the kernel modules are built on the node, from the kernel's headers."""
        return bool(self.names.headers.form) and self.kernel in self.names.modules.by_type.values()

    @property
    def pins(self) -> t.Dict[str, str]:
        """Return the version of packages, as apt's preferences name them, for what is depended on."""
        if self.names.archive.alike and self.version:
            return {self.names.archive.alike: f"{self.version}-*"}
        pins = {**self.exactly}
        for name, version in self.targets.items():
            source = self.names.source(name) if name in self.names.matched else ""
            if source and version:
                pins.setdefault(f"src:{source}", version)
        return pins


# What a source comes to: its steps and its choice, None where nothing else can be planned yet.
Draft = t.Tuple[t.Tuple[Step, ...], t.Optional[Choice]]


def package_names(
    state: DriverState, desired: Desired, kind: str, kernel: str
) -> t.Tuple[str, ...]:
    """Return the packages of the desired driver; ``kernel`` is the one with the kernel modules."""
    known = state.software.names
    names = {*components.chosen(known, desired.components), kernel, known.modules.anchor}
    names.update(known.modules.beside if kernel == known.modules.by_type[kind] else ())
    if state.machine.nvswitch and known.fabric:
        names.update([known.fabric, *known.subnet])
    if known.persistenced in names:
        names.update(known.companion)
    architectures = {architecture for _address, architecture in state.machine.gpus}
    if kind == "open" or architectures.difference(PROPRIETARY_ONLY):
        names.add(known.firmware)
    return tuple(sorted(names - {""}))


def built(
    state: DriverState,
    desired: Desired,
    kind: str,
    usable: t.Callable[[t.Sequence[Version]], t.Sequence[Version]] = tuple,
) -> Choice:
    """Choose kernel modules in the driver's version; ``usable`` returns the versions that fit the running kernel."""
    kernel = state.software.names.modules.by_type[kind]
    names = package_names(state, desired, kind, kernel)
    unknown = not_offered(state, names)
    if unknown:
        return awaited(state, desired, kind, kernel, unknown)
    matched, versions = common(state, desired, names, kernel)
    version = usable(versions)[0]
    chosen = assigned(state, desired, kind, names, matched, version)
    return Choice(kind, version, chosen, (), state.software.names, kernel, desired.version)


def not_offered(state: DriverState, names: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return the packages that no source has."""
    return tuple(name for name in names if not state.software.versions(name))


def awaited(
    state: DriverState, desired: Desired, kind: str, kernel: str, unknown: t.Tuple[str, ...]
) -> Choice:
    """Return the choice whose versions are known only once the sources have what is unknown."""
    names = package_names(state, desired, kind, kernel)
    targets = {name: state.software.installed(name) for name in names}
    return Choice(kind, None, targets, unknown, state.software.names, kernel, desired.version)


def common(
    state: DriverState, desired: Desired, names: t.Sequence[str], anchor: str
) -> t.Tuple[t.List[str], t.List[Version]]:
    """Return the packages that share one version of the driver, and the versions to have, the best first.

    The ``anchor`` is the package that has the driver's version.
    """
    known = state.software.names
    offered = set(state.software.drivers(anchor))
    apart = {*known.loose, *known.modules.prebuilt.values()}
    matched = [
        name
        for name in names
        if name in known.matched
        or (name not in apart and not offered.isdisjoint(state.software.drivers(name)))
    ]
    return matched, _common(state, desired, anchor, matched)


def assigned(
    state: DriverState,
    desired: Desired,
    kind: str,
    names: t.Sequence[str],
    matched: t.Collection[str],
    version: Version,
) -> t.Dict[str, str]:
    """Return the version of each package for a version of the driver, with packages of others that must follow."""
    chosen = {
        name: _full(state, desired.version, name, version, matched=name in matched)
        for name in names
    }
    # Packages of DCGM fit each other at the same version only.
    dcgm = [package for package in names if package.startswith(components.DCGM)]
    if not all(map(state.software.installed, dcgm)):
        candidates = {name: state.software.candidate(name) for name in dcgm}
        chosen.update({name: candidate for name, candidate in candidates.items() if candidate})
    taken = state.taken(desired.adopt)
    dependents = siblings(state, {*names, *taken})
    for name in (*dependents, *(counterparts(state, taken, kind) if taken else ())):
        if version in state.software.drivers(name):
            chosen[name] = _full(state, desired.version, name, version, matched=True)
    return chosen


def siblings(state: DriverState, chosen: t.Collection[str]) -> t.List[str]:
    """Return other installed packages of the driver's source packages, which must have the driver's version.

    Only Ubuntu's branches have sources of their own.
    """
    source = state.software.names.archive.sources.get("", "") if state.software.names.branch else ""
    return [
        name
        for name, package in state.software.packages.items()
        if source and package.installed and package.source == source
        if name not in chosen
        and name not in state.history.record.packages
        and not state.type_of(name)
    ]


def _common(
    state: DriverState, desired: Desired, kernel: str, matched: t.Sequence[str]
) -> t.List[Version]:
    """Return the driver's versions that packages share, best first: the installed one if it fits, then the newest."""
    version = desired.version
    offered = {name: state.software.drivers(name) for name in matched}
    shared = set(offered[kernel]).intersection(*offered.values())
    common = [driver for driver in offered[kernel] if driver in shared]
    if not common:
        offers = "; ".join(f"{name}: {', '.join(versions)}" for name, versions in offered.items())
        raise NoCommonVersion(
            f"the package sources have no version of the driver in common for {kernel} and the rest",
            cause=offers,
            hint="enable the same components in the release, its updates and its security suite",
        )
    is_full = any(version in state.software.versions(name) for name in matched)
    exact = Version.of(version) if is_full else version
    fitting = [driver for driver in common if driver.fits(exact)]
    if not fitting:
        expected = f"a version that the sources have for {', '.join(matched)}: {', '.join(common)}"
        branches, branch = sorted({driver.branch for driver in common}), state.software.names.branch
        if branch and branch not in branches:
            expected += f"; {branch} has become {', '.join(branches)}"
        raise unknown_version(desired, expected)
    gpus = state.machine.gpus
    supporting = driver_branches.best_versions(fitting, gpus)
    if not supporting:
        raise driver_branches.unsupported_error(fitting, gpus)
    usable = {driver for driver in fitting if driver_branches.best_versions([driver], gpus)}
    installed = [] if desired.update else map(state.software.driver, (kernel, *matched))
    there = [driver for driver in installed if driver in usable]
    order = state.software.drivers(kernel)
    # Those that are not newer than apt would choose by itself come first: the user's preferences bound a branch, too.
    candidates = {Version.of(state.software.candidate(name)) for name in (kernel, *matched)}
    first = max((order.index(known) for known in candidates if known in order), default=0)
    newer = () if "." in version else order[:first]
    return list(dict.fromkeys([*there, *sorted(supporting, key=newer.__contains__)]))


def unknown_version(desired: Desired, expected: str) -> InputError:
    """Return the error for a version that no source has, with where there are more."""
    error = UnknownVersion.of("version", desired.version, expected)
    error.hint = ELSEWHERE.get(desired.source.name, "")
    return error


def _full(
    state: DriverState, desired_version: str, name: str, version: Version, *, matched: bool
) -> str:
    """Return the version of a package for a version of the driver, which it has if it is ``matched``."""
    software = state.software
    versions = software.versions(name)
    if desired_version in versions:
        return desired_version
    preferred = [software.installed(name), software.candidate(name), *versions]
    known = [version for version in preferred if version is not None]
    if matched:
        return next(full for full in known if Version.of(full) == version)
    if name in software.names.loose:
        # That of another driver, in a repository which apt prefers, may need this driver's libraries.
        known.sort(key=lambda full: _distance(Version.of(full), version))
    return known[0]


def _distance(package: Version, driver: Version) -> int:
    """Return how far the version of a package is from the driver's: the same, an older one, a newer one."""
    return 0 if package == driver else 1 if package.numbers < driver.numbers else 2


def otherwise(missing: str) -> str:
    """Return the next step for a kernel that lacks a package: to install it, or to remove the kernel."""
    advice = f"install {missing}" if missing else "install its modules"
    return f". Next step: {advice}, or remove that kernel"
