# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages in Ubuntu, and in NVIDIA's repository for it; Ubuntu has kernel modules that are prebuilt.

A package of these is of one kernel and in the kernel's versions. The lower bound of what it needs of
nvidia-kernel-common is the driver's version that it is built for; that newer ones satisfy the bound too does
not make its modules work with them.

The components are in debian/templates/control.in of NVIDIA's ubuntu-packaging-nvidia-driver; their names without
branch, from 590 on, in the rename table of NVIDIA's Driver Installation Guide.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.steps import Step
from .. import branches as driver_branches
from ..branches import NO_VERSION, UnknownVersion, Version
from ..desired import Desired
from ..facts import DriverState, Traits
from ..family import Family
from ..packages.names import (
    NO_BRANCH,
    PREFERRED,
    Archive,
    Headers,
    ModulePackages,
    Names,
    Offer,
    Requirements,
    fabric,
    mark,
    order,
    part,
)
from ..packages.versions import (
    Choice,
    assigned,
    awaited,
    built,
    common,
    not_offered,
    otherwise,
    package_names,
    unknown_version,
)
from ..record import Record

EXACT = re.compile(r"(\S+) \(= (\S+)\)")
OBJECTS = "linux-objects-nvidia-"
PREBUILT = "linux-modules-nvidia-"
# What says whether a branch is a server's or a desktop's.
MAIN = re.compile(r"(?:libnvidia-compute|nvidia-kernel-common|nvidia-dkms)-\d+(-server)?(?:-open)?")
# The flavour of kernels that a tracking package follows.
TRACKED = r"(?!server|open)[a-z].*"
TRACKING = re.compile(rf"{PREBUILT}\d+(?:-server)?(?:-open)?-{TRACKED}")
# What needs DKMS's modules, or a tracking package in their place.
WHOLE = re.compile(r"nvidia-driver-\d+(?:-server)?(?:-open)?")
# Server branches live longest.
SERVER = re.compile(r"nvidia-dkms-(\d+)-server(-open)?")
BRANCH = re.compile(r"nvidia-dkms-(\d+)(-open)?")
INSTALLED = re.compile(r"libnvidia-compute-(\d+)-server|nvidia-dkms-(\d+)(?:-open)?")
DESKTOP = re.compile(r"libnvidia-compute-(\d+)")
COMMON: t.Dict[str, t.Any] = {"title": "Ubuntu", "headers": Headers("linux-headers-{}")}


def branches(
    names: t.Iterable[str], module_type: str, pattern: t.Pattern[str] = SERVER
) -> t.Tuple[Version, ...]:
    """Return the branches that have the kernel modules of a module type, newest first."""
    ending = "-open" if module_type == "open" else None
    matches = [match for match in map(pattern.fullmatch, names) if match and match[2] == ending]
    return tuple(sorted({Version(match[1]) for match in matches}, key=int, reverse=True))


def _server_names(offered: Offer, requirements: Requirements) -> Names:
    desktop = not requirements.ending
    known = branches(offered.names, requirements.module_type, BRANCH if desktop else SERVER)
    usable = driver_branches.best_versions(known, requirements.gpus) or known
    kind = "-open" if requirements.module_type == "open" else ""

    def is_community(branch: str) -> bool:
        policy = offered.policies.get(f"nvidia-dkms-{branch}{requirements.ending}{kind}")
        return policy is not None and policy.component in ("multiverse", "universe")

    usable = sorted(usable, key=is_community)
    matches = map((DESKTOP if desktop else INSTALLED).fullmatch, offered.installed)
    installed = [match[1] for match in matches if match and match[1]]
    newest = sorted(installed, key=int, reverse=True)
    have = [branch for branch in newest if branch in usable or not usable]
    branch = next(filter(None, [requirements.version.branch, *have, *usable, NO_BRANCH]))
    server = f"{branch}{requirements.ending}"
    endings = {"open": f"{server}-open", "proprietary": server}
    prebuilt = {key: f"{PREBUILT}{ending}-{requirements.kernel}" for key, ending in endings.items()}
    user_space = ("libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
    return Names(
        **COMMON,
        **fabric(offered, requirements, f"nvidia-fabricmanager-{branch}", branch=branch),
        modules=ModulePackages(
            {key: f"nvidia-dkms-{ending}" for key, ending in endings.items()},
            prebuilt,
            anchor=f"nvidia-kernel-common-{server}",
            signed=frozenset(prebuilt.values()),
        ),
        archive=Archive(("restricted", "multiverse"), {"": f"nvidia-graphics-drivers-{server}"}),
        user_space=tuple(f"{name}-{server}" for name in user_space),
        persistenced=f"nvidia-compute-utils-{server}",
        parts=_parts(f"-{server}"),
        companion=(f"libnvidia-cfg1-{server}",),
        branches=known,
        branch=branch,
    )


def _parts(suffix: str) -> t.Dict[str, t.Tuple[str, ...]]:
    return {
        "video": (f"libnvidia-decode{suffix}", f"libnvidia-encode{suffix}"),
        "graphics": (f"libnvidia-gl{suffix}",),
    }


def _repository_names(offered: Offer, requirements: Requirements) -> Names:
    known = branches(offered.names, requirements.module_type, BRANCH)
    dkms = "nvidia-dkms-open" if requirements.module_type == "open" else "nvidia-dkms"
    unified = dkms in offered.names
    have = {match[2] for match in map(INSTALLED.fullmatch, offered.installed) if match}
    asked = (requirements.version or driver_branches.newest_branch_for(requirements.gpus)).branch
    branch = asked or next((candidate for candidate in known if candidate in have), "")
    if branch not in known:
        branch = "" if unified or not known else branch or known[0]
    suffix = f"-{branch}" if branch else ""
    persistenced = f"nvidia-compute-utils{suffix}"
    if persistenced not in offered.names and "nvidia-persistenced" in offered.names:
        persistenced = "nvidia-persistenced"
    utilities = f"nvidia-utils{suffix}"
    utility_packages = (utilities,) if utilities in offered.names else ()
    return Names(
        **COMMON,
        **fabric(offered, requirements, branch=branch),
        modules=ModulePackages(
            {"open": f"nvidia-dkms{suffix}-open", "proprietary": f"nvidia-dkms{suffix}"}
        ),
        archive=Archive(alike=PREFERRED),
        user_space=(f"libnvidia-compute{suffix}", persistenced, *utility_packages),
        persistenced=persistenced,
        parts=_parts(suffix),
        branches=() if unified else known,
        branch=branch,
    )


def built_for(needs: t.Iterable[str], anchor: str) -> Version:
    """Return the driver's version that a package needs of the anchor, empty if it does not name one."""
    pattern = re.compile(re.escape(anchor) + r" \(>= (\S+)\)")
    versions = [match[1] for match in map(pattern.fullmatch, needs) if match]
    return Version.of(f"{versions[0]}-") if versions else NO_VERSION


def builds(state: DriverState, package: str) -> t.Dict[str, Version]:
    """Return the driver's version of each version of a package, newest first, empty if it is not known."""
    needs, anchor = state.software.relations.get(package, {}), state.software.names.modules.anchor
    return {
        version: built_for(needs.get(version, ()), anchor)
        for version in state.software.versions(package)
    }


def build(state: DriverState, package: str, version: str) -> t.Optional[str]:
    """Return the version of a package for a version of the driver: the installed one, else apt's candidate."""
    if package in state.history.refused:
        return None
    drivers = builds(state, package).items()
    candidates = [candidate for candidate, driver in drivers if driver in ("", version)]
    preferred = [state.software.installed(package), state.software.candidate(package), *candidates]
    return next((candidate for candidate in preferred if candidate in candidates), None)


def of_kernel(state: DriverState, kind: str, kernel: str) -> str:
    """Return the package that has the modules of a kernel, empty if there are none of the kind."""
    name = state.software.names.modules.prebuilt.get(kind, "")
    running = state.machine.kernel
    return name[: -len(running)] + kernel if name.endswith(running) else ""


def waiting(state: DriverState, kind: str) -> t.Tuple[Version, str]:
    """Return the installed driver's version, and the newest kernel that has its modules and waits for a boot."""
    version = state.software.driver(state.software.names.modules.anchor)
    for kernel in state.newer:
        package = of_kernel(state, kind, kernel)
        if builds(state, package).get(state.software.installed(package) or "") == version:
            return version, kernel
    return NO_VERSION, ""


def targets(state: DriverState, kind: str, version: str, *, follow: bool) -> t.Dict[str, str]:
    """Return the packages for a version: of the running kernel, of newer ones, and of the one before.

    ``follow`` adds the tracking package, with which the modules of a new kernel come by themselves.
    """
    kernels = (state.machine.kernel, *state.newer)
    names = [
        *(of_kernel(state, kind, kernel) for kernel in kernels),
        *_previous_kernel(state, kind),
    ]
    versions = {name: build(state, name, version) for name in names}
    chosen = {name: full for name, full in versions.items() if full is not None}
    # Tracking packages at a version that needs what was chosen, and nothing else.
    exact = {f"{name} (= {full})" for name, full in chosen.items()}
    result = {**chosen}
    for name in tracking(state, kind):
        needs, offered = state.software.relations.get(name, {}), state.software.versions(name)
        fitting = [full for full in offered if exact & set(needs.get(full, ()))]
        installed = state.software.installed(name)
        if fitting and name not in state.history.refused and (follow or installed):
            result[name] = installed if installed in fitting else fitting[0]
    return result


def _previous_kernel(state: DriverState, kind: str) -> t.List[str]:
    """Return the package that this module has added for the kernel before the running one.

    Those of older kernels would keep them on the node for ever, and fill /boot.
    """
    start, running = of_kernel(state, kind, ""), order(state.machine.kernel)
    ours = state.history.record.packages
    kernels = [name[len(start) :] for name in ours if name.startswith(start)]
    older = [kernel for kernel in kernels if kernel[:1].isdigit() and order(kernel) < running]
    there = [release for release in older if state.software.installed(f"{start}{release}")]
    return [f"{start}{release}" for release in sorted(there, key=order)[-1:]]


def tracking(state: DriverState, kind: str) -> t.List[str]:
    """Return the names that tracking packages of the driver would have, and those that are installed."""
    start = of_kernel(state, kind, "")
    pattern = re.compile(re.escape(start) + TRACKED)
    there = filter(pattern.fullmatch, filter(state.software.installed, state.software.packages))
    named = (f"{start}{flavour}" for flavour in state.flavours)
    return [*dict.fromkeys((*named, *there))] if start else []


def _choose(state: DriverState, desired: Desired, kind: str, kernel: str) -> t.Optional[Choice]:
    """Choose with prebuilt modules of the running kernel, None if they are built for none of the versions."""
    known = state.software.names
    names = package_names(state, desired, kind, kernel)
    there, boot = waiting(state, kind)
    unknown = not_offered(state, names)
    if unknown and (unknown != (kernel,) or not boot):
        return awaited(state, desired, kind, kernel, unknown)
    names = tuple(name for name in names if name != kernel)
    matched, versions = common(state, desired, names, known.modules.anchor)
    fits = [candidate for candidate in versions if build(state, kernel, candidate) is not None]
    boot = "" if there in fits else boot
    fits += [there] if boot else []
    versions = [candidate for candidate in versions if candidate in fits]
    if not versions:
        return None
    version = versions[0]
    if version not in {*map(state.software.driver, matched)}:
        newer = [of_kernel(state, kind, candidate) for candidate in state.newer]

        def count_kernels(driver: str) -> int:
            return sum(build(state, package, driver) is not None for package in newer)

        # The first of those with modules for most of the newer kernels.
        version = max(versions, key=count_kernels)
    chosen = assigned(state, desired, kind, names, matched, version)
    tracked = any(TRACKING.fullmatch(candidate) for candidate in state.taken(desired.adopt))
    chosen.update(targets(state, kind, version, follow=not desired.hold or tracked))
    trackers = tracking(state, kind)
    tracks = any(name in chosen or state.software.installed(name) for name in trackers)
    # apt would bring DKMS's modules as well, for a metapackage that knows no others.
    if not tracks and any(map(WHOLE.fullmatch, chosen)):
        return None
    boot = boot if version == there else ""
    have = state.software.installed(kernel)
    chosen.update({kernel: have} if boot and have else {})
    # What chosen modules need in one version only: their signatures and objects.
    relations = state.software.relations
    needs = (
        need for name, full in chosen.items() for need in relations.get(name, {}).get(full, ())
    )
    matches = (match for match in map(EXACT.fullmatch, needs) if match)
    exactly = {match[1]: match[2] for match in matches if match[1] not in chosen}
    return Choice(kind, version, chosen, (), known, kernel, desired.version, boot, exactly)


class Ubuntu(Family):
    """Ubuntu: branches with names of their own, and prebuilt kernel modules."""

    traits = Traits(
        name="ubuntu",
        apt=True,
        pattern=rf"nvidia-dkms(?:-open)?|(?:nvidia-dkms|linux-modules-nvidia)-(?:\d+|{NO_BRANCH}).*",
        archive="Ubuntu's component restricted",
    )

    def names(self, offered: Offer, requirements: Requirements) -> Names:
        """Return the packages of a branch: the desired one, else the installed, else the newest that runs the GPUs."""
        return (_repository_names if requirements.repository else _server_names)(
            offered, requirements
        )

    def prefixes(self, requirements: Requirements) -> t.Tuple[str, ...]:
        return ("nvidia-",)

    def candidates(self, offered: Offer, requirements: Requirements) -> t.Tuple[str, ...]:
        """Return the packages that have the kernel modules of a branch, where one is to be chosen."""
        if requirements.version or any("nvidia" in package for package in offered.installed):
            return ()
        names = offered.names
        return tuple(sorted({*filter(SERVER.fullmatch, names), *filter(BRANCH.fullmatch, names)}))

    def ending(self, installed: t.Iterable[str], record: Record, desired: Desired) -> str:
        """Return -server, or nothing if a desktop's packages were taken over."""
        if any(mark(component).endswith("-server") for component in desired.components):
            return "-server"
        fresh = [name for name in installed if name not in record.packages] if desired.adopt else []
        for names in (record.adopted_versions, fresh):
            endings = {match[1] for match in map(MAIN.fullmatch, names) if match}
            if endings:
                return "-server" if "-server" in endings else ""
        return "-server"

    def asked(self, state: DriverState) -> t.Set[str]:
        """Return the prebuilt kernel modules that may be offered or are there, and what tracks them."""
        kinds, kernels = state.software.names.modules.prebuilt, (state.machine.kernel, *state.newer)
        if not kinds:
            return set()
        packages = {name for name in state.history.record.packages if name.startswith(PREBUILT)}
        for kind in kinds:
            packages.update(of_kernel(state, kind, kernel) for kernel in kernels)
            packages.update(tracking(state, kind))
        return {name for name in packages if name and NO_BRANCH not in name}

    def choose(self, state: DriverState, desired: Desired, kind: str) -> Choice:
        """Choose prebuilt modules, in a version that they are built for, before those that DKMS builds.

        Where these have no fitting version, it is said what prebuilt ones are built for.
        """
        known = state.software.names
        if known.branches and known.branch not in known.branches:
            expected = f"a branch that the sources have with {kind} kernel modules: "
            raise unknown_version(desired, f"{expected}{', '.join(known.branches)}")
        ready = known.modules.prebuilt.get(kind, "")
        there = state.software.versions(ready) and ready not in state.history.refused
        offered = there or waiting(state, kind)[1]
        use = ready and offered and not state.software.installed(known.modules.by_type[kind])
        choice = _choose(state, desired, kind, ready) if use else None
        try:
            return choice or built(state, desired, kind)
        except UnknownVersion as error:
            versions = sorted({version for version in builds(state, ready).values() if version})
            if versions:
                error.cause += f"; {ready} is built for {', '.join(versions)}"
            raise

    def unusable(self, state: DriverState, steps: t.Iterable[Step], refusal: str) -> t.List[str]:
        """Return the prebuilt modules to be installed that a refusal names, or all of them if it names none."""
        start = tuple(
            {of_kernel(state, kind, "") for kind in state.software.names.modules.prebuilt} - {""}
        )
        names = [name for step in steps for name in step.params.get("packages", ())]
        ready = [name for name in names if start and name.startswith(start)]
        ready = [name for name in ready if name not in state.history.refused]
        return [name for name in ready if name in refusal] or ready

    def excluded(self, names: t.Iterable[str], targets: t.Collection[str]) -> t.Set[str]:
        parts = {part(name) for name in targets}
        return {name for name in names if part(name) in parts}

    def alike(self, state: DriverState, kind: str, package: str) -> bool:
        start = of_kernel(state, kind, "")
        return bool(start) and package.startswith(start) and self.traits.type_of(package) == kind

    def tracks(self, state: DriverState, kind: str) -> bool:
        return any(map(state.software.installed, tracking(state, kind)))

    def objects(
        self, state: DriverState, drop: t.Iterable[str], taken: t.Collection[str]
    ) -> t.List[str]:
        """Return our packages that modules which go were linked from; apt keeps packages with a kernel's name."""
        names = [name.replace("linux-modules-", "linux-objects-", 1) for name in drop]
        ours = {*filter(state.software.installed, (*state.history.record.packages, *taken))}
        return [name for name in names if name.startswith(OBJECTS) and name in ours]

    def remedy(self, state: DriverState, choice: Choice, kernel: str) -> str:
        if not choice.prebuilt:
            return super().remedy(state, choice, kernel)
        missing = of_kernel(state, choice.kind, kernel)
        kernel_builds = builds(state, missing)
        versions = sorted({version for version in kernel_builds.values() if version})
        if versions:
            cause = f"its modules are built for {', '.join(versions)}"
            first = "boot it and run again, which takes that version"
        elif not kernel_builds:
            cause = f"the sources have no {missing}"
            first = "refresh the package lists and run again"
        else:
            return otherwise(missing)
        keep = "hold_kernel: true keeps such kernels away"
        return f"; {cause}. Next step: {first}, or remove that kernel; {keep}"


UBUNTU = Ubuntu()
