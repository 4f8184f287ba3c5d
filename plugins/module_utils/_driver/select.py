# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The packages that the driver of a node takes, and the versions that go together."""

from __future__ import annotations

import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.steps import Step
from . import branches as driver_branches
from . import components
from .adoption import counterparts, taken
from .branches import NoCommonVersion, UnknownVersion, Version
from .names import Names
from .state import Desired, Observed

PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
ONLY = {"blackwell": "open", **dict.fromkeys(PROPRIETARY_ONLY, "proprietary")}


class Choice(t.NamedTuple):
    """The packages of the wanted driver, each with its version, None where that is not known yet.

    ``kernel`` is the package with the modules of the running kernel, ``asked`` the version that was asked for, ``boot``
    the kernel that has the modules where the running one has none, ``exactly`` what they need in one version only.
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
        """Tell whether the kernel modules are made for one kernel each, and need no compiler."""
        return self.kernel in self.names.prebuilt.values()

    @property
    def pins(self) -> t.Dict[str, str]:
        """Return the version of packages, as apt's preferences name them, for what is depended on."""
        if self.names.alike and self.version:
            return {self.names.alike: f"{self.version}-*"}
        pins = {**self.exactly}
        for name, version in self.targets.items():
            source = self.names.source(name) if name in self.names.matched else ""
            if source and version:
                pins.setdefault(f"src:{source}", version)
        return pins


# What a source comes to: its steps and its choice, None where nothing else can be planned yet.
Draft = t.Tuple[t.Tuple[Step, ...], t.Optional[Choice]]


# Where a version is to be had that the sources of a kind do not offer.
ELSEWHERE = {
    "distribution": "choose one of these, or let the driver come from NVIDIA's repository, which has more:"
    " nvidia_driver_source: repository with nvidia_driver_repository: nvidia",
    "repository": "choose one of these, or a repository that has it",
}


def module_type(
    wanted: str, gpus: t.Sequence[t.Tuple[str, str]], there: t.AbstractSet[str] = frozenset()
) -> str:
    """Return open or proprietary for GPUs given as (address, architecture).

    Where they run with both, it is the type that is ``there``, if one alone is.
    """
    for address, architecture in gpus:
        only = ONLY.get(architecture)
        wanted = only if only and wanted == "auto" else wanted
        if only and wanted != only:
            raise NodeError(
                f"the {wanted} kernel modules do not run on the {architecture} GPU {address}",
                cause=f"{architecture} GPUs run with the {only} ones only",
                hint=f"set kernel_modules to {only}, or take one of the GPUs out",
            )
    installed = next(iter(there)) if len(there) == 1 else "open"
    return installed if wanted == "auto" else wanted


def wanted_type(observed: Observed, desired: Desired) -> str:
    """Return the type of kernel modules to have on a node."""
    return module_type(desired.kernel_modules, observed.gpus, observed.types)


def check_components(observed: Observed, wanted: t.Sequence[str], *, persistence: bool) -> None:
    """Refuse names of components and packages that cannot be meant."""
    names = observed.names
    for name in wanted:
        components.check_name(name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", name):
            raise InputError.of("components", name, f"names of {names.title} packages")
        if observed.type_of(name):
            raise InputError.of(
                "components", name, "no kernel modules: kernel_modules chooses them"
            )
    if persistence and names.persistenced not in components.chosen(names, wanted):
        raise InputError.of(
            "components",
            list(wanted),
            f"{names.persistenced} among them, or persistence to be false",
        )


def package_names(
    observed: Observed, desired: Desired, kind: str, kernel: str
) -> t.Tuple[str, ...]:
    """Return the packages of the wanted driver; ``kernel`` is the one with the kernel modules."""
    known = observed.names
    names = {*components.chosen(known, desired.components), kernel}
    names.update([known.anchor] if known.anchor else [])
    names.update(known.beside if kernel == known.kernel[kind] else ())
    if observed.nvswitch and known.fabric:
        names.update([known.fabric, *known.subnet])
    if known.persistenced in names:
        names.update(known.companion)
    if kind == "open" or any(one not in PROPRIETARY_ONLY for _address, one in observed.gpus):
        names.update([known.firmware] if known.firmware else [])
    return tuple(sorted(names))


def built(
    observed: Observed,
    desired: Desired,
    kind: str,
    usable: t.Callable[[t.Sequence[Version]], t.Sequence[Version]] = tuple,
) -> Choice:
    """Choose with kernel modules in the driver's version; ``usable`` returns those of the versions that will do."""
    kernel = observed.names.kernel[kind]
    names = package_names(observed, desired, kind, kernel)
    unknown = not_offered(observed, names)
    if unknown:
        return awaited(observed, desired, kind, kernel, unknown)
    matched, versions = common(observed, desired, names, kernel)
    version = usable(versions)[0]
    chosen = assigned(observed, desired, kind, names, matched, version)
    return Choice(kind, version, chosen, (), observed.names, kernel, desired.version)


def not_offered(observed: Observed, names: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return the packages that no source has."""
    return tuple(one for one in names if not observed.versions(one))


def awaited(
    observed: Observed, desired: Desired, kind: str, kernel: str, unknown: t.Tuple[str, ...]
) -> Choice:
    """Return the choice whose versions are known only once the sources have what is unknown."""
    names = package_names(observed, desired, kind, kernel)
    targets = {name: observed.installed(name) for name in names}
    return Choice(kind, None, targets, unknown, observed.names, kernel, desired.version)


def common(
    observed: Observed, desired: Desired, names: t.Sequence[str], anchor: str
) -> t.Tuple[t.List[str], t.List[Version]]:
    """Return those of the packages that go at one version, and these versions, the best first.

    The ``anchor`` is the package that has the driver's version.
    """
    known = observed.names
    offered, apart = set(observed.drivers(anchor)), {*known.loose, *known.prebuilt.values()}
    matched = [
        name
        for name in names
        if name in known.matched
        or (name not in apart and not offered.isdisjoint(observed.drivers(name)))
    ]
    return matched, _common(observed, desired, anchor, matched)


def assigned(
    observed: Observed,
    desired: Desired,
    kind: str,
    names: t.Sequence[str],
    matched: t.Collection[str],
    version: Version,
) -> t.Dict[str, str]:
    """Return the package's versions that belong to a version of the driver, with others' parts of it."""
    chosen = {
        name: _full(observed, desired.version, name, version if name in matched else None)
        for name in names
    }
    chosen.update(components.together(observed, names))
    others = siblings(observed, {*names, *taken(observed, desired)})
    for name in (*others, *counterparts(observed, desired, observed.names, kind)):
        if version in observed.drivers(name):
            chosen[name] = _full(observed, desired.version, name, version)
    return chosen


def siblings(observed: Observed, wanted: t.Collection[str]) -> t.List[str]:
    """Return what else somebody has installed of the driver's sources, and must stay at its version.

    Only Ubuntu's branches have sources of their own.
    """
    source = observed.names.sources.get("", "") if observed.names.branch else ""
    return [
        name
        for name, one in observed.packages.items()
        if source and one.installed and one.source == source
        if name not in wanted
        and name not in observed.record.packages
        and not observed.type_of(name)
    ]


def _common(
    observed: Observed, desired: Desired, kernel: str, matched: t.Sequence[str]
) -> t.List[Version]:
    """Return the upstream versions to have, the best first: the installed one if it will do, then the newest."""
    wanted = desired.version
    offered = {name: observed.drivers(name) for name in matched}
    common = [one for one in offered[kernel] if all(one in found for found in offered.values())]
    if not common:
        words = "; ".join(f"{name}: {', '.join(found)}" for name, found in offered.items())
        raise NoCommonVersion(
            f"the package sources have no version of the driver in common for {kernel} and the rest",
            cause=words,
            hint="enable the same components in the release, its updates and its security suite",
        )
    is_full = any(wanted in observed.versions(name) for name in matched)
    exact = Version.of(wanted) if is_full else wanted
    fitting = [one for one in common if one.fits(exact)]
    if not fitting:
        expected = f"a version that the sources offer for {', '.join(matched)}: {', '.join(common)}"
        raise unknown_version(desired, expected + _become(observed.names.branch, common))
    supporting = driver_branches.able(fitting, observed.gpus)
    if not supporting:
        raise driver_branches.no_version(fitting, observed.gpus)
    there = [] if desired.update else _there(observed, (kernel, *matched), fitting)
    order = supporting if wanted else _preferred(observed, kernel, supporting)
    return list(dict.fromkeys([*there, *order]))


def unknown_version(desired: Desired, expected: str) -> InputError:
    """Return the error for a version that no source of the wanted kind has, with where there is more."""
    error = UnknownVersion.of("version", desired.version, expected)
    error.hint = ELSEWHERE.get(desired.source, "")
    return error


def _become(branch: str, versions: t.Sequence[Version]) -> str:
    """Say that the packages of a branch are those of another one by now."""
    found = sorted({one.branch for one in versions})
    return f"; {branch} has become {', '.join(found)}" if branch and branch not in found else ""


def _there(
    observed: Observed, names: t.Sequence[str], fitting: t.Sequence[Version]
) -> t.List[Version]:
    """Return the installed versions that will do."""
    installed = map(observed.driver, names)
    return [
        one for one in installed if one in fitting and driver_branches.able([one], observed.gpus)
    ]


def _preferred(observed: Observed, kernel: str, fitting: t.Sequence[Version]) -> t.List[Version]:
    """Return the versions that are not newer than apt would choose by itself, newest first, then the others."""
    order = observed.drivers(kernel)
    candidate = observed.candidate(kernel)
    first = order.index(Version.of(candidate)) if candidate in observed.versions(kernel) else 0
    return sorted(fitting, key=lambda one: order.index(one) < first)


def _full(observed: Observed, wanted: str, name: str, version: t.Optional[Version]) -> str:
    """Return a package's full version; ``version`` is None where it need not match."""
    versions = observed.versions(name)
    if wanted in versions:
        return wanted
    preferred = [observed.installed(name), observed.candidate(name), *versions]
    return next(
        one
        for one in preferred
        if one is not None and (version is None or Version.of(one) == version)
    )
