# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the families of distributions differ in, and which packages and versions go together where they are alike.

A family has a file in families, and the planner knows none of them.
"""

from __future__ import annotations

import re
import typing as t

from .._base.errors import InputError
from .._base.steps import Step
from . import branches as driver_branches
from . import components
from .adoption import counterparts
from .branches import NO_VERSION, PROPRIETARY_ONLY, NoCommonVersion, UnknownVersion, Version
from .kernel.modules import SigningKey, refuse_key
from .names import SUBNET, Names, Offer, Wanted
from .state import Desired, Observed, Record

FABRICS = ("nvidia-fabricmanager", "nvidia-fabric-manager")


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
    def dkms(self) -> bool:
        """Tell whether the kernel modules are built on the node, from the kernel's headers."""
        return bool(self.names.headers) and self.kernel in self.names.kernel.values()

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


class Family:
    """A family as it is where it is like most; one that is like no other is that of a system that is not known.

    ``name`` is that by which package managers are known, ``apt`` says that it has apt. ``pattern`` finds kernel
    modules of any branch. ``archive`` is what in the distribution's own archive has its driver, empty where NVIDIA's
    repository alone does. ``has_precompiled`` says that such kernel modules are a choice of the user's, ``module`` is
    dnf's that has the driver in streams, ``locking`` the package without which none can be held. ``builds`` says that
    the modules are built for one kernel and may serve others, ``kernels`` finds those that come along with them.
    """

    name = ""
    apt = False
    pattern = ""
    archive = ""
    has_precompiled = False
    module = ""
    locking = ""
    builds = False
    kernels = ""
    # The commands that a person is told.
    unhold, purge = "apt-mark unhold", "apt-get purge"

    # --- names: which packages there are, and what has to be asked of the sources before ---

    def names(self, offered: Offer, wanted: Wanted) -> Names:
        """Return the packages that fit what is wanted."""
        raise NotImplementedError

    def prefixes(self, wanted: Wanted) -> t.Tuple[str, ...]:
        """Return what the names begin with that decide about the packages."""
        return ()

    def candidates(self, offered: Offer, wanted: Wanted) -> t.Tuple[str, ...]:
        """Return the packages whose policies decide, by the names that are offered and what is installed."""
        return ()

    def ending(self, installed: t.Iterable[str], record: Record, desired: Desired) -> str:
        """Return how the names of a branch end."""
        return ""

    def wants_precompiled(
        self, asked: str, installed: t.Iterable[str], key: t.Optional[SigningKey]
    ) -> bool:
        """Tell whether precompiled kernel modules come before those that DKMS builds."""
        return False

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules that a package has, empty where it has none."""
        if not re.fullmatch(self.pattern, package):
            return ""
        return "open" if "open" in package.split("-") else "proprietary"

    # --- choose: which versions go together ---

    def asked(self, observed: Observed) -> t.Set[str]:
        """Return the packages of kernel modules whose versions and relations are asked for beside the names."""
        return set()

    def choose(self, observed: Observed, desired: Desired, kind: str) -> Choice:
        """Return one version of the driver that all its packages are offered in."""
        return built(observed, desired, kind)

    def newest(self, observed: Observed, desired: Desired, kind: str) -> Version:
        """Return the newest version that is offered of a branch, which is the version that is desired."""
        return self.choose(observed, desired, kind).version or NO_VERSION

    def unusable(self, observed: Observed, steps: t.Iterable[Step], words: str) -> t.List[str]:
        """Return the kernel modules among what is to be installed that a refusal of the package manager is about."""
        return []

    # --- offered: what stands in the way, what goes along, and what is left ---

    def streams(self, observed: Observed, desired: Desired) -> t.List[Step]:
        """Return the step that has the sources have the version."""
        return []

    def prerequisites(self, observed: Observed, desired: Desired, choice: Choice) -> t.List[Step]:
        """Return the steps that install what the driver stands on; NodeError where that is not wanted."""
        return []

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        """Refuse where the driver of another packager is installed."""

    def refuse_unsigned(self, observed: Observed, desired: Desired, package: str) -> None:
        """Refuse kernel modules, of a key that is not known, which the firmware does not accept."""
        if observed.signing_key:
            lacking = [one for one in ("dkms", "mokutil") if not observed.installed(one)]
            refuse_key(observed.signing_key, lacking)

    def excluded(self, names: t.Iterable[str], targets: t.Collection[str]) -> t.Set[str]:
        """Return the packages that the targets exclude: of another branch or generation."""
        return set()

    def alike(self, observed: Observed, kind: str, package: str) -> bool:
        """Tell whether a package has modules of the wanted branch and type, for whichever kernel."""
        return False

    def tracks(self, observed: Observed, kind: str) -> bool:
        """Tell whether the modules of new kernels come by themselves."""
        return False

    def objects(
        self, observed: Observed, drop: t.Iterable[str], taken: t.Collection[str]
    ) -> t.List[str]:
        """Return what goes with kernel modules that go."""
        return []

    def waits(self, observed: Observed, choice: Choice) -> str:
        """Say that the modules are there for a newer kernel only, which is to be booted."""
        return ""

    def remedy(self, observed: Observed, choice: Choice, kernel: str) -> str:
        """Say what a kernel without modules lacks, and what to do."""
        missing = observed.names.headers_of(kernel) if choice.dkms else ""
        return otherwise(missing)


UNKNOWN = Family()


def fabric(offered: Offer, wanted: Wanted, otherwise: str = "", of: str = "") -> t.Dict[str, t.Any]:
    """Return the fabric manager that is available, and its subnet manager, as fields of Names.

    Its name has changed over the years. ``of`` is the branch where no version is asked for.
    """
    one = wanted.version.branch or of
    names = (*(f"{name}-{one}" for name in FABRICS if one), *FABRICS)
    found = (name for name in names if wanted.nvswitch and name in offered.names)
    subnet = (SUBNET,) if wanted.bridged and SUBNET in offered.names else ()
    return {"fabric": next(found, otherwise), "subnet": subnet}


def package_names(
    observed: Observed, desired: Desired, kind: str, kernel: str
) -> t.Tuple[str, ...]:
    """Return the packages of the wanted driver; ``kernel`` is the one with the kernel modules."""
    known = observed.names
    names = {*components.chosen(known, desired.components), kernel, known.anchor}
    names.update(known.beside if kernel == known.kernel[kind] else ())
    if observed.nvswitch and known.fabric:
        names.update([known.fabric, *known.subnet])
    if known.persistenced in names:
        names.update(known.companion)
    if kind == "open" or any(one not in PROPRIETARY_ONLY for _address, one in observed.gpus):
        names.add(known.firmware)
    return tuple(sorted(names - {""}))


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
    # Packages of DCGM fit each other at the same version only.
    dcgm = [one for one in names if one.startswith(components.DCGM)]
    if not all(map(observed.installed, dcgm)):
        candidates = {name: observed.candidate(name) for name in dcgm}
        chosen.update({name: one for name, one in candidates.items() if one})
    taken = observed.taken(desired.adopt)
    others = siblings(observed, {*names, *taken})
    for name in (*others, *(counterparts(observed, taken, kind) if taken else ())):
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
        expected = f"a version that the sources have for {', '.join(matched)}: {', '.join(common)}"
        branches, branch = sorted({one.branch for one in common}), observed.names.branch
        if branch and branch not in branches:
            expected += f"; {branch} has become {', '.join(branches)}"
        raise unknown_version(desired, expected)
    supporting = driver_branches.able(fitting, observed.gpus)
    if not supporting:
        raise driver_branches.no_version(fitting, observed.gpus)
    installed = [] if desired.update else map(observed.driver, (kernel, *matched))
    there = [
        one for one in installed if one in fitting and driver_branches.able([one], observed.gpus)
    ]
    order, candidate = observed.drivers(kernel), observed.candidate(kernel)
    # Those that are not newer than apt would choose by itself come first.
    first = order.index(Version.of(candidate)) if candidate in observed.versions(kernel) else 0
    newer = () if wanted else order[:first]
    return list(dict.fromkeys([*there, *sorted(supporting, key=newer.__contains__)]))


def unknown_version(desired: Desired, expected: str) -> InputError:
    """Return the error for a version that no source of the wanted kind has, with where there is more."""
    error = UnknownVersion.of("version", desired.version, expected)
    error.hint = ELSEWHERE.get(desired.source, "")
    return error


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


def otherwise(missing: str) -> str:
    """Return the advice to install what a kernel lacks, or to do without the kernel."""
    advice = f"install {missing}" if missing else "install its modules"
    return f". Next step: {advice}, or remove that kernel"
