# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The packages that the driver of a node takes, and the versions that go together."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError, NodeError
from ..packages.apt import upstream
from ..steps import Step
from . import branches as driver_branches
from .names import Names
from .state import Desired, Observed

PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
ONLY = {"blackwell": "open", **dict.fromkeys(PROPRIETARY_ONLY, "proprietary")}


class Choice(t.NamedTuple):
    """The packages of the wanted driver, each with its version, None where that is not known yet."""

    kind: str
    version: t.Optional[str]
    targets: t.Mapping[str, t.Optional[str]]
    unknown: t.Tuple[str, ...]
    names: Names

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


# What a source comes to: its steps and its choice, None where nothing else can be planned yet.
Draft = t.Tuple[t.Tuple[Step, ...], t.Optional[Choice]]


class UnknownVersion(InputError):
    """A version that the package lists do not have."""


class NoCommonVersion(NodeError):
    """The package lists have no version that the packages share."""


def module_type(wanted: str, gpus: t.Sequence[t.Tuple[str, str]]) -> str:
    """Return open or proprietary for GPUs given as (address, architecture)."""
    for address, architecture in gpus:
        only = ONLY.get(architecture)
        wanted = only if only and wanted == "auto" else wanted
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
    names.update([known.anchor] if known.anchor else [])
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
    anchor = observed.kernel_package(kind)  # the package that has the version of the driver
    anchor = known.anchor if anchor in known.prebuilt.values() else anchor
    kernel, apart = set(observed.upstreams(anchor)), {*known.loose, *known.prebuilt.values()}
    matched = [
        name
        for name in names
        if name in known.matched or (name not in apart and kernel & set(observed.upstreams(name)))
    ]
    version = _common(observed, desired.version, anchor, matched)
    targets = {
        name: _full(observed, desired.version, name, version if name in matched else None)
        for name in names
    }
    return Choice(kind, version, targets, (), known)


def _common(observed: Observed, wanted: str, kernel: str, matched: t.Sequence[str]) -> str:
    """Return the upstream version to have: the installed one if it will do, else the newest."""
    offered = {name: observed.upstreams(name) for name in matched}
    common = [one for one in offered[kernel] if all(one in found for found in offered.values())]
    if not common:
        words = "; ".join(f"{name}: {', '.join(found)}" for name, found in offered.items())
        raise NoCommonVersion(
            f"the package sources have no version of the driver in common for {kernel} and the rest",
            cause=words,
            hint="enable the same components in the release, its updates and its security suite",
        )
    is_full = any(wanted in observed.versions(name) for name in matched)
    exact = upstream(wanted) if is_full else wanted
    fitting = [one for one in common if driver_branches.fits(one, exact)]
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
    return supporting[0] if wanted else _preferred(observed, kernel, supporting)


def _preferred(observed: Observed, kernel: str, fitting: t.Sequence[str]) -> str:
    """Return the newest version that is not newer than apt would choose by itself."""
    order = observed.upstreams(kernel)
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
