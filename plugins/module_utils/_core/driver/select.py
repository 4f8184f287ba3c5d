# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver of a node: the packages it takes, and the versions that go together."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError, NodeError
from ..packages.apt import upstream
from ..packages.apt_sources import Source
from ..packages.package import Package, Policy
from ..packages.streams import Streams
from ..packages.transaction import Removal
from . import branches as driver_branches
from .kernel import Dkms, Modules, Options
from .packages.names import DEBIAN, Names
from .record import Record
from .repository import Repository
from .runfile import Installed, Runfile
from .secure_boot import SigningKey

COMPONENTS = DEBIAN.components
PERSISTENCED = DEBIAN.persistenced
USER_SPACE = DEBIAN.user_space
KERNEL = DEBIAN.kernel
RELEVANT = DEBIAN.relevant
MATCHED = DEBIAN.matched
PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
OPEN_ONLY = ("blackwell",)


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants."""

    state: str
    version: str
    kernel_modules: str
    components: t.Tuple[str, ...]
    hold: bool
    load: bool
    persistence: bool
    manage_sources: bool
    secure_boot: str
    reload: str
    module_options: Options = ()
    source: str = "distribution"
    repository: t.Optional[Repository] = None
    runfile: t.Optional[Runfile] = None


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has; ``record`` is what earlier runs wrote down of their additions.

    ``refreshed`` says that this run has fetched the package lists, ``refresh_note`` what went
    wrong with it. ``removal`` is there when additions are to be taken back and dpkg is in order.
    ``users`` are the processes that have a GPU open, ``reload_note`` is why this run could not
    exchange the loaded modules. ``nvswitch`` says that the GPUs are joined by NVSwitches, ``bridged`` that
    these are managed through InfiniBand, ``fabric``
    what the fabric manager's service does; ``libraries`` are the versions of libnvidia-ml.
    ``repository`` are our files that name a repository, ``repository_key`` is the key's text where it is
    on the node, ``trusted`` the keys that rpm has. ``signing_key`` is there with Secure Boot on.
    ``runfile`` is what NVIDIA's own installer has left, ``firmware`` the versions with firmware for the GSP.
    """

    distribution: str
    codename: str
    title: str
    kernel: str
    headers: bool
    gpus: t.Tuple[t.Tuple[str, str], ...]
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    interrupted: bool
    loaded: t.Optional[t.Tuple[str, str]]
    nouveau: bool
    service: t.Mapping[str, str]
    sources: t.Tuple[Source, ...]
    own_sources: t.Optional[str]
    record: Record
    foreign_installer: bool = False
    smi: bool = False
    refreshed: bool = False
    refresh_note: str = ""
    removal: t.Optional[Removal] = None
    users: t.Tuple[str, ...] = ()
    reload_note: str = ""
    modules: Modules = dataclasses.field(default_factory=Modules)
    dkms: t.Tuple[Dkms, ...] = ()
    names: Names = DEBIAN
    nvswitch: bool = False
    bridged: bool = False
    fabric: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    libraries: t.Tuple[str, ...] = ()
    repository: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    repository_key: t.Optional[str] = None
    trusted: t.Tuple[str, ...] = ()
    signing_key: t.Optional[SigningKey] = None
    runfile: Installed = dataclasses.field(default_factory=Installed)
    firmware: t.Tuple[str, ...] = ()
    streams: Streams = dataclasses.field(default_factory=Streams)

    def installed(self, package: str) -> t.Optional[str]:
        """Return an installed package's version."""
        found = self.packages.get(package)
        return found.version if found is not None and found.installed else None

    @property
    def unfinished(self) -> bool:
        """Tell whether dpkg was stopped in the middle of any package."""
        return self.interrupted or any(one.broken for one in self.packages.values())

    def held(self, package: str) -> bool:
        """Tell whether a package is on hold."""
        found = self.packages.get(package)
        return found is not None and found.held

    def versions(self, package: str) -> t.Tuple[str, ...]:
        """Return every version that can be had, newest first, the installed one among them."""
        policy = self.policies.get(package)
        versions = policy.versions if policy else ()
        installed = self.installed(package)
        return versions if installed is None or installed in versions else (*versions, installed)

    def kernel_package(self, kind: str) -> str:
        """Return the package of the kernel modules: a prebuilt one unless DKMS has it in hand."""
        built, prebuilt = self.names.kernel[kind], self.names.prebuilt.get(kind, "")
        if self.installed(built) is not None or not prebuilt or not self.versions(prebuilt):
            return built
        return prebuilt

    def candidate(self, package: str) -> t.Optional[str]:
        """Return the version that apt would install."""
        policy = self.policies.get(package)
        return policy.candidate if policy else None


@dataclasses.dataclass(frozen=True)
class Choice:
    """The packages of the wanted driver, each with its version, None where that is not known yet."""

    kind: str
    version: t.Optional[str]
    targets: t.Mapping[str, t.Optional[str]]
    unknown: t.Tuple[str, ...]
    names: Names = DEBIAN

    @property
    def pins(self) -> t.Dict[str, str]:
        """Return the version of packages, as apt's preferences name them, for what is depended on."""
        if self.names.alike and self.version:
            return {self.names.alike: f"{self.version}-*"}
        pins: t.Dict[str, str] = {}
        for name, version in self.targets.items():
            source = self.names.source(name) if name in self.names.matched else ""
            if source and version:
                pins.setdefault(f"src:{source}", version)
        return pins


class UnknownVersion(InputError):
    """A version that the package lists do not have."""


class NoCommonVersion(NodeError):
    """The package lists have no version that the packages share."""


def flavour(wanted: str, gpus: t.Sequence[t.Tuple[str, str]]) -> str:
    """Return open or proprietary for GPUs given as (address, architecture)."""
    for address, architecture in gpus:
        only = "open" if architecture in OPEN_ONLY else ""
        only = "proprietary" if architecture in PROPRIETARY_ONLY else only
        if wanted == "auto" and only:
            wanted = only
        if only and wanted != only:
            raise NodeError(
                f"the {wanted} kernel modules do not run on the {architecture} GPU {address}",
                cause=f"{architecture} GPUs run with the {only} ones only",
                hint=f"set kernel_modules to {only}, or take one of the GPUs out",
            )
    return "open" if wanted == "auto" else wanted


def check_components(names: Names, components: t.Sequence[str], *, persistence: bool) -> None:
    """Refuse package names that cannot be meant."""
    for name in components:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", name):
            raise InputError.of("components", name, f"names of {names.title} packages")
        if names.is_kernel(name):
            raise InputError.of(
                "components", name, "no kernel modules: kernel_modules chooses them"
            )
    if persistence and names.persistenced not in components:
        raise InputError.of(
            "components",
            list(components),
            f"{names.persistenced} among them, or persistence to be false",
        )


def package_names(observed: Observed, desired: Desired, kind: str) -> t.Tuple[str, ...]:
    """Return the packages of the wanted driver."""
    known = observed.names
    names = {*(desired.components or known.user_space), observed.kernel_package(kind)}
    names.update(known.always)
    if observed.nvswitch and known.fabric:
        names.update([known.fabric, *known.subnet])
    if known.persistenced in names:
        names.update(known.companion)
    if kind == "open" or any(one not in PROPRIETARY_ONLY for _address, one in observed.gpus):
        names.update([known.firmware] if known.firmware else [])
    return tuple(sorted(names))


def choose(observed: Observed, desired: Desired, kind: str) -> Choice:
    """Choose one version of the driver that all its packages are offered in."""
    names = package_names(observed, desired, kind)
    known = observed.names
    if known.branches and known.branch not in known.branches:
        raise UnknownVersion.of(
            "version",
            desired.version,
            f"a branch that the sources offer with {kind} kernel modules: {', '.join(known.branches)}",
        )
    unknown = tuple(name for name in names if not observed.versions(name))
    if unknown:
        targets = {name: observed.installed(name) for name in names}
        return Choice(kind, None, targets, unknown, known)
    anchor = _anchor(observed, kind)
    kernel = {upstream(one) for one in observed.versions(anchor)}
    matched = [
        name
        for name in names
        if name in known.matched
        or (
            name not in {*known.loose, *known.prebuilt.values()}
            and kernel & {upstream(one) for one in observed.versions(name)}
        )
    ]
    version = _common(observed, desired.version, anchor, matched)
    targets = {
        name: _full(observed, desired.version, name, version if name in matched else None)
        for name in names
    }
    return Choice(kind, version, targets, (), known)


def _anchor(observed: Observed, kind: str) -> str:
    """Return the package that has the version of the driver."""
    package = observed.kernel_package(kind)
    return observed.names.anchor if package in observed.names.prebuilt.values() else package


def _common(observed: Observed, wanted: str, kernel: str, matched: t.Sequence[str]) -> str:
    """Return the upstream version to have: the installed one if it will do, else the newest."""
    offered = {name: [upstream(one) for one in observed.versions(name)] for name in matched}
    common = [
        one
        for one in dict.fromkeys(offered[kernel])
        if all(one in versions for versions in offered.values())
    ]
    if not common:
        words = "; ".join(f"{name}: {', '.join(found)}" for name, found in offered.items())
        raise NoCommonVersion(
            f"the package sources have no version of the driver in common for {kernel} and the rest",
            cause=words,
            hint="enable the same components in the release, its updates and its security suite",
        )
    exact = {upstream(one) for name in matched for one in observed.versions(name) if one == wanted}
    fitting = [
        one
        for one in common
        if not wanted or one in exact or one == wanted or one.startswith(f"{wanted}.")
    ]
    if not fitting:
        raise UnknownVersion.of(
            "version",
            wanted,
            f"a version that the sources offer for {', '.join(matched)}: {', '.join(common)}",
        )
    supporting = driver_branches.able(fitting, observed.gpus)
    if not supporting:
        raise driver_branches.no_version(fitting, observed.gpus)
    for name in (kernel, *matched):
        installed = observed.installed(name)
        there = upstream(installed) if installed is not None else ""
        if there in fitting and driver_branches.able([there], observed.gpus):
            return there
    fitting = supporting
    return fitting[0] if wanted else _preferred(observed, kernel, fitting)


def _preferred(observed: Observed, kernel: str, fitting: t.Sequence[str]) -> str:
    """Return the newest version that is not newer than apt would choose by itself."""
    order = list(dict.fromkeys(upstream(one) for one in observed.versions(kernel)))
    candidate = observed.candidate(kernel)
    first = order.index(upstream(candidate)) if candidate in observed.versions(kernel) else 0
    return next((one for one in fitting if order.index(one) >= first), fitting[0])


def _full(observed: Observed, wanted: str, name: str, version: t.Optional[str]) -> str:
    """Return a package's full version; ``version`` is None where it need not match."""
    versions = observed.versions(name)
    if wanted in versions:
        return wanted
    preferred = [observed.installed(name), observed.candidate(name), *versions]
    return next(
        one
        for one in preferred
        if one is not None and (version is None or upstream(one) == version)
    )
