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
from . import prebuilt
from .adoption.found import WHOLE, counterparts, taken, tracked
from .components import packages as components
from .names import Names
from .rhel.precompiled import PATTERN as PRECOMPILED
from .rhel.precompiled import version_of
from .state import Desired, Observed
from .suse import kmp

PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
# What distributions and NVIDIA call packages with kernel modules.
MODULES = re.compile(
    r"nvidia-dkms(?:-\d+)?(?:-server)?(?:-open)?|linux-modules-nvidia-\d.*"
    r"|nvidia-(?:open-)?kernel-(?:open-)?dkms|kmod-nvidia-(?:open|latest)-dkms"
    rf"|{PRECOMPILED}"
    r"|nvidia-(?:open-)?driver-G\d\d.*"
)
ONLY = {"blackwell": "open", **dict.fromkeys(PROPRIETARY_ONLY, "proprietary")}


class Choice(t.NamedTuple):
    """The packages of the wanted driver, each with its version, None where that is not known yet.

    ``kernel`` is the package with the modules of the running kernel, ``asked`` the version that was asked for, ``boot``
    the kernel that has the modules where the running one has none, ``exactly`` what they need in one version only.
    """

    kind: str
    version: t.Optional[str]
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


class UnknownVersion(InputError):
    """A version that the package lists do not have."""


class NoCommonVersion(NodeError):
    """The package lists have no version that the packages share."""


class NoModules(NoCommonVersion):
    """What is installed has no modules for the running kernel, and the package lists have none either."""


def type_of(package: str) -> str:
    """Return the type of the kernel modules that a package has, empty where it has none."""
    if not MODULES.fullmatch(package):
        return ""
    return "open" if "open" in package.split("-") else "proprietary"


def module_type(
    wanted: str, gpus: t.Sequence[t.Tuple[str, str]], there: t.Iterable[str] = ()
) -> str:
    """Return open or proprietary for GPUs given as (address, architecture).

    Where they run with both, it is that of the packages that are ``there``.
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
    types = {type_of(one) for one in there} - {""}
    installed = types.pop() if len(types) == 1 else "open"
    return installed if wanted == "auto" else wanted


def wanted_type(observed: Observed, desired: Desired) -> str:
    """Return the type of kernel modules to have on a node."""
    there = [name for name in observed.packages if observed.installed(name)]
    return module_type(desired.kernel_modules, observed.gpus, there)


def wanted_version(observed: Observed, desired: Desired) -> str:
    """Return the version or branch to have, empty where all will do."""
    kind = wanted_type(observed, desired)
    return (
        version_of(observed.names.kernel.get(kind, ""))
        or desired.version
        or driver_branches.last(observed.gpus)
    )


def check_components(names: Names, wanted: t.Sequence[str], *, persistence: bool) -> None:
    """Refuse names of components and packages that cannot be meant."""
    for name in wanted:
        components.check_name(name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", name):
            raise InputError.of("components", name, f"names of {names.title} packages")
        if names.is_kernel(name):
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


def choose(observed: Observed, desired: Desired, kind: str) -> Choice:
    """Choose one version of the driver that all its packages are offered in.

    Prebuilt kernel modules come first, in a version that they are built for, then those that DKMS builds.
    """
    known = observed.names
    if known.branches and known.branch not in known.branches:
        expected = f"a branch that the sources offer with {kind} kernel modules: "
        raise _unknown(desired, f"{expected}{', '.join(known.branches)}")
    built, ready = known.kernel[kind], known.prebuilt.get(kind, "")
    boot = prebuilt.awaited(observed, kind)[1]
    offered = boot or (observed.versions(ready) and ready not in observed.refused)
    use = ready and offered and not observed.installed(built)
    found = _choose(observed, desired, kind, ready) if use else None
    return found or _built(observed, desired, kind, built)


def _built(observed: Observed, desired: Desired, kind: str, package: str) -> Choice:
    """Choose what DKMS builds; where that has no fitting version, say what prebuilt modules are built for."""
    try:
        found = _choose(observed, desired, kind, package)
    except UnknownVersion as error:
        ready = observed.names.prebuilt.get(kind, "")
        versions = sorted({one for one in prebuilt.builds(observed, ready).values() if one})
        if versions:
            error.cause += f"; {ready} is built for {', '.join(versions)}"
        raise
    if found is None:
        raise AssertionError("what DKMS builds has the driver's version")
    return found


def _choose(observed: Observed, desired: Desired, kind: str, kernel: str) -> t.Optional[Choice]:
    """Choose with one package of kernel modules, None where it is built for none of the versions."""
    names, known = package_names(observed, desired, kind, kernel), observed.names
    ready = kernel in known.prebuilt.values()
    there, boot = prebuilt.awaited(observed, kind) if ready else ("", "")
    unknown = tuple(one for one in names if not observed.versions(one))
    if unknown and (unknown != (kernel,) or not boot):
        targets = {name: observed.installed(name) for name in names}
        return Choice(kind, None, targets, unknown, known, kernel, desired.version)
    anchor = known.anchor if ready else kernel  # the package that has the version of the driver
    offered, apart = set(observed.upstreams(anchor)), {*known.loose, *known.prebuilt.values()}
    matched = [
        name
        for name in names
        if name in known.matched or (name not in apart and offered & set(observed.upstreams(name)))
    ]
    versions = _common(observed, desired, anchor, matched)
    if ready:
        built = [one for one in versions if prebuilt.build(observed, kernel, one) is not None]
        boot = "" if there in built else boot
        versions = [one for one in versions if one in built or (boot and one == there)]
    else:
        versions = kmp.usable(observed, kernel, versions)
    if not versions:
        return None
    version = _first(observed, kind, versions, matched) if ready else versions[0]
    chosen = {
        name: _full(observed, desired.version, name, version if name in matched else None)
        for name in names
        if name != kernel or not ready
    }
    chosen.update(components.together(observed, names))
    others = siblings(observed, {*names, *taken(observed, desired)})
    for name in (*others, *counterparts(observed, desired, known, kind)):
        if version in observed.upstreams(name):
            chosen[name] = _full(observed, desired.version, name, version)
    if ready:
        follow = not desired.hold or tracked(observed, desired)
        chosen.update(prebuilt.targets(observed, kind, version, follow=follow))
        if _needs_dkms(observed, kind, chosen):
            return None
        boot = boot if version == there else ""
        have = observed.installed(kernel)
        chosen.update({kernel: have} if boot and have else {})
    elif chosen[kernel] != desired.version:
        chosen[kernel] = kmp.build(observed, kernel, version) or chosen[kernel]
    modules = chosen.get(kernel, "")
    if desired.load and observed.gpus and kmp.useless(observed, kernel, modules):
        raise _no_modules(observed, kernel, modules)
    exactly = prebuilt.exactly(observed, chosen) if ready else {}
    return Choice(kind, version, chosen, (), known, kernel, desired.version, boot, exactly)


def _needs_dkms(observed: Observed, kind: str, chosen: t.Collection[str]) -> bool:
    """Tell whether apt would bring DKMS's modules as well, for a metapackage that knows no others."""
    tracks = prebuilt.tracking(observed, kind)
    fits = any(one in chosen or observed.installed(one) for one in tracks)
    return not fits and any(WHOLE.fullmatch(one) for one in chosen)


def _no_modules(observed: Observed, package: str, version: str) -> NoModules:
    able = [one for one in observed.modules.kernels if one not in observed.modules.bare]
    boot = f"boot {', '.join(able)}, which has modules, or " if able else ""
    return NoModules(
        f"{package} {version} has no modules for the running kernel {observed.kernel}",
        cause="the kernel's symbols are others than those it was built with, and the package sources offer no build "
        "for them",
        hint=f"{boot}wait for one, or set load to false",
    )


def siblings(observed: Observed, wanted: t.Collection[str]) -> t.List[str]:
    """Return what else somebody has installed of the driver's sources, and must stay at its version.

    Only Ubuntu's branches have sources of their own.
    """
    source = observed.names.sources.get("", "") if observed.names.branch else ""
    return [
        name
        for name, one in observed.packages.items()
        if source and one.installed and one.source == source
        if name not in wanted and name not in observed.record.packages and not type_of(name)
    ]


def _first(
    observed: Observed, kind: str, versions: t.Sequence[str], matched: t.Sequence[str]
) -> str:
    """Return the version that is installed, else the first of those with modules for most of the newer kernels."""
    have = {upstream(observed.installed(name) or "-") for name in matched}
    if versions[0] in have:
        return versions[0]
    return max(versions, key=lambda one: prebuilt.covered(observed, kind, one))


def _common(
    observed: Observed, desired: Desired, kernel: str, matched: t.Sequence[str]
) -> t.List[str]:
    """Return the upstream versions to have, the best first: the installed one if it will do, then the newest."""
    wanted = desired.version
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
        expected = f"a version that the sources offer for {', '.join(matched)}: {', '.join(common)}"
        raise _unknown(desired, expected + _become(observed.names.branch, common))
    supporting = driver_branches.able(fitting, observed.gpus)
    if not supporting:
        raise driver_branches.no_version(fitting, observed.gpus)
    there = [] if desired.update else _there(observed, (kernel, *matched), fitting)
    order = supporting if wanted else _preferred(observed, kernel, supporting)
    return list(dict.fromkeys([*there, *order]))


def _unknown(desired: Desired, expected: str) -> InputError:
    error = UnknownVersion.of("version", desired.version, expected)
    error.hint = ELSEWHERE.get(desired.source, "")
    return error


def _become(branch: str, versions: t.Sequence[str]) -> str:
    """Say that the packages of a branch are those of another one by now."""
    found = sorted({driver_branches.branch(one) for one in versions})
    return f"; {branch} has become {', '.join(found)}" if branch and branch not in found else ""


def _there(observed: Observed, names: t.Sequence[str], fitting: t.Sequence[str]) -> t.List[str]:
    """Return the installed versions that will do."""
    installed = [upstream(observed.installed(name) or "-") for name in names]
    return [
        one for one in installed if one in fitting and driver_branches.able([one], observed.gpus)
    ]


def _preferred(observed: Observed, kernel: str, fitting: t.Sequence[str]) -> t.List[str]:
    """Return the versions that are not newer than apt would choose by itself, newest first, then the others."""
    order = observed.upstreams(kernel)
    candidate = observed.candidate(kernel)
    first = order.index(upstream(candidate)) if candidate in observed.versions(kernel) else 0
    return sorted(fitting, key=lambda one: order.index(one) < first)


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
