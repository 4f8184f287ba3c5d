# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for SUSE, whose kernel modules (KMP) are of the version <driver>_k<kernel>.

A build serves that kernel and later ones of its service pack, until SUSE breaks the kernel's ABI. There is one build on
a node at a time, for all of its kernels.

The components are in nvidia-driver-G06.spec of openSUSE: NVENC and NVDEC come with nvidia-compute, nvidia-video is X's.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Policy
from .. import branches
from ..branches import NoCommonVersion, NotOffered, Version
from ..desired import Desired
from ..facts import DriverState, Traits
from ..family import Family
from ..packages.names import Headers, ModulePackages, Names, Offer, Requirements, fabric, order
from ..packages.versions import Choice, built

GENERATIONS = ("G07", "G06")
NEWER_FROM = 590  # where nothing is offered yet, the branch tells the generation
# SUSE signs one build for each of NVIDIA's two repositories, CUDA's and the one for desktops; each has the
# user space of its own versions only. What follows is NVIDIA's own, as modules or as sources for DKMS.
KERNEL = {
    "open": (
        "nvidia-open-driver-{}-signed-cuda-kmp-{}",
        "nvidia-open-driver-{}-signed-kmp-{}",
        "nvidia-open-driver-{}-kmp-{}",
        "nvidia-open-driver-{}",
    ),
    "proprietary": ("nvidia-driver-{}-kmp-{}", "nvidia-driver-{}"),
}
UTILITIES = "nvidia-compute-utils-{}"
DAEMON = "nvidia-persistenced"
# The user space needs its own version of the former, and of the latter any that is not older.
COMMON, MODPROBE = "nvidia-common-{}", "nvidia-modprobe"
BUILT_FOR = re.compile(r"_k(\d[\w.]*)-[^-]+$")
GENERATION = re.compile(r"^nvidia-.*-(G\d\d)(?:-|$)")


# Old generations, and G06 as it was called at first: nvidia-gfxG05-kmp-default, nvidia-computeG05, x11-video-nvidiaG04.
OLD_NAMES = re.compile(r"(?:nvidia|x11-video-nvidia)(?:-[a-z]+)*(?:G\d\d|-G0[1-5])(?:-kmp-\w+)?")
# SUSE's own builds of the open kernel modules; it installs the one for desktops by the hardware.
SIGNED = re.compile(r"nvidia-open-driver-G\d\d-signed-(cuda-)?kmp-\w+")


class NoModules(NoCommonVersion):
    """What is installed has no modules for the running kernel, and the package lists have none either."""


def kernel_flavour(kernel: str) -> str:
    """Return the flavour that the name of a running kernel ends with, such as default or azure."""
    match = re.search(r"-([a-z][a-z0-9]*|64kb)$", kernel)
    return match[1] if match else "default"


def _common(policies: t.Mapping[str, Policy], *names: str) -> t.FrozenSet[Version]:
    """Return the driver's versions that packages share."""
    offers = [policies[name].versions if name in policies else () for name in names]
    return frozenset.intersection(*(frozenset(map(Version.of, versions)) for versions in offers))


def built_for(version: str) -> str:
    """Return the kernel that a build is made for, without its flavour; empty if the version does not say."""
    match = BUILT_FOR.search(version)
    return match[1].replace("_", "-") if match else ""


def _nearest(versions: t.Iterable[str], kernel: str) -> t.List[str]:
    """Return the builds that are not for newer kernels, the nearest first."""
    candidates = [version for version in versions if order(built_for(version)) <= order(kernel)]
    return sorted(candidates, key=lambda version: order(built_for(version)), reverse=True)


def _builds(state: DriverState, package: str, driver: t.Optional[str]) -> t.List[str]:
    builds = filter(built_for, state.software.versions(package))
    return [version for version in builds if Version.of(version) == driver]


def build(state: DriverState, package: str, driver: str) -> t.Optional[str]:
    """Return the build of a version of the driver for the running kernel, None if there is none.

    What is installed stays where it has modules for that, and where an update has brought it for a newer kernel while
    the driver of before is loaded.
    """
    builds, have = _builds(state, package, driver), state.software.installed(package)
    updated = state.loaded.driver is not None and bool(_kernels_with_modules(state))
    if have in builds and (updated or state.machine.kernel not in state.loaded.modules.bare):
        return have
    nearest = _nearest(builds, state.machine.kernel)
    return next((version for version in nearest if version != have), None)


def helping(state: DriverState, package: str, driver: t.Optional[str], kernel: str) -> str:
    """Return the build of a driver's version that a kernel without modules needs, empty if there is none."""
    have = state.software.installed(package) or ""
    newer = (
        version
        for version in _nearest(_builds(state, package, driver), kernel)
        if order(built_for(version)) > order(built_for(have))
    )
    return next(newer, "")


def _bare(state: DriverState, package: str, version: t.Optional[str]) -> bool:
    """Return whether a build is installed that the running kernel can't use."""
    if version is None or version != state.software.installed(package):
        return False
    return bool(built_for(version)) and state.machine.kernel in state.loaded.modules.bare


def _kernels_with_modules(state: DriverState) -> t.List[str]:
    """Return the newer kernels that have modules, newest first."""
    return [kernel for kernel in state.newer if kernel not in state.loaded.modules.bare]


def generation(package: str) -> str:
    """Return the generation in the name of a part of SUSE's driver, as G06, empty if it has none."""
    match = GENERATION.match(package)
    return match[1] if match else ""


def usable(state: DriverState, package: str, drivers: t.Sequence[Version]) -> t.Sequence[Version]:
    """Return the driver's versions that the running kernel has a build of, all if there is none."""
    return [driver for driver in drivers if build(state, package, driver)] or drivers


def _excludes(state: DriverState, choice: Choice, package: str) -> bool:
    """Return whether installed kernel modules exclude those of a choice; other flavours of one build do not."""
    known = {*choice.targets, *choice.names.modules.by_type.values()}
    if choice.version is None or package in known or not state.type_of(package):
        return False
    own, other = SIGNED.fullmatch(choice.kernel), SIGNED.fullmatch(package)
    same_build = own is not None and other is not None and own[1] == other[1]
    return not (same_build and generation(choice.kernel) == generation(package))


def useless(state: DriverState, package: str, version: t.Optional[str]) -> bool:
    """Return whether installed modules can't be loaded, by the running kernel or after a boot into a newer one."""
    bare = state.loaded.driver is None and _bare(state, package, version)
    return bare and not _kernels_with_modules(state)


class Suse(Family):
    """SUSE: two generations of the driver's packages, and kernel modules that are built for one kernel each."""

    traits = Traits(
        name="suse",
        pattern=r"nvidia-(?:open-)?driver-G\d+(?:-(?:signed-)?(?:cuda-)?kmp-\w+)?",
        builds=True,
        unhold="zypper removelock",
        purge="zypper remove",
        kernels=r"kernel-(?:default|azure|64kb|rt)",
    )

    def candidates(self, offered: Offer, requirements: Requirements) -> t.Tuple[str, ...]:
        flavour = kernel_flavour(requirements.kernel)
        forms = (UTILITIES, *(form for forms in KERNEL.values() for form in forms))
        packages = (form.format(number, flavour) for number in GENERATIONS for form in forms)
        return (DAEMON, *packages)

    def names(self, offered: Offer, requirements: Requirements) -> Names:
        """Return the packages whose kernel modules and user space have a version in common.

        What is installed stays where it fits.
        """
        flavour = kernel_flavour(requirements.kernel)
        version = Version.of(requirements.version or branches.newest_branch_for(requirements.gpus))
        older = int(version.branch or NEWER_FROM) < NEWER_FROM
        policies = dict(offered.policies)
        for name in offered.installed.keys() & set(self.candidates(offered, requirements)):
            policy = policies.get(name, Policy(None, ()))
            policies[name] = policy._replace(versions=(*policy.versions, offered.installed[name]))

        def rank(package: str, generation: str) -> int:
            both = _common(policies, package, UTILITIES.format(generation))
            return 0 if any(number.fits(version) for number in both) else 1 if both else 2

        def package(generation: str, of: str) -> str:
            def place(name: str) -> t.Tuple[int, bool, bool]:
                return rank(name, generation), name not in offered.installed, name not in policies

            return min((form.format(generation, flavour) for form in KERNEL[of]), key=place)

        generation = min(
            GENERATIONS,
            key=lambda number: (
                rank(package(number, requirements.module_type), number),
                not any(f"-{number}" in name for name in offered.installed),
                UTILITIES.format(number) not in policies,
                older == (number == GENERATIONS[0]),
            ),
        )
        utilities = UTILITIES.format(generation)
        # Older utilities have the persistence daemon in them.
        both = _common(policies, DAEMON, utilities)
        daemon = DAEMON if any(number.fits(version) for number in both) else utilities
        kernel = {of: package(generation, of) for of in KERNEL}
        compute = f"nvidia-compute-{generation}"
        return Names(
            title="SUSE",
            modules=ModulePackages(
                kernel, signed=frozenset(name for name in kernel.values() if "-signed-" in name)
            ),
            headers=Headers(
                ""
                if "-kmp-" in kernel[requirements.module_type]
                else f"kernel-{flavour}-devel={{bare}}",
                first=True,
            ),
            user_space=tuple(dict.fromkeys((compute, utilities, daemon))),
            persistenced=daemon,
            parts={"video": (compute,), "graphics": (f"nvidia-gl-{generation}",)},
            needs=(COMMON.format(generation), MODPROBE),
            **fabric(offered, requirements),
        )

    def choose(self, state: DriverState, desired: Desired, kind: str) -> Choice:
        """Choose of the driver's versions one that the running kernel has a build of, where there is any."""
        kernel = state.software.names.modules.by_type[kind]
        result = built(state, desired, kind, functools.partial(usable, state, kernel))
        if result.version is None:
            if desired.source.repository is None and not state.history.refreshed:
                raise NotOffered(
                    f"the package sources have no {', '.join(result.unknown)}",
                    hint="let zypper refresh its repositories, then run again",
                )
            return result
        chosen = result.targets[kernel] or ""
        if chosen != desired.version:
            chosen = build(state, kernel, result.version) or chosen
        if desired.kernel.load and state.machine.gpus and useless(state, kernel, chosen):
            modules = state.loaded.modules
            able = [release for release in modules.kernels if release not in modules.bare]
            boot = f"boot {', '.join(able)}, which has modules, or " if able else ""
            raise NoModules(
                f"{kernel} {chosen} has no modules for the running kernel {state.machine.kernel}",
                cause="the kernel's symbols are others than those it was built with, and the package sources have no "
                "build for them",
                hint=f"{boot}wait for one, or set load to false",
            )
        return result._replace(targets={**result.targets, kernel: chosen})

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        older = sorted(filter(OLD_NAMES.fullmatch, installed))
        if older:
            raise NodeError(
                f"{', '.join(older)} of an older generation of the driver would have to go, and this module has not "
                "added them",
                cause="the generations exclude each other, and one driver has the kernel modules",
                hint="keep that driver with source: preinstalled, or remove it, then run again: "
                f"zypper remove {' '.join(older)}",
            )

    def dependencies(
        self, state: DriverState, choice: Choice, changed: t.Collection[str]
    ) -> t.Dict[str, str]:
        """Return what the user space needs of NVIDIA's: zypper changes the vendor of named packages alone."""
        result, software = {}, state.software
        if choice.version and any(name in software.names.user_space for name in changed):
            for name in software.names.needs:
                have = software.driver(name)
                is_newer = name == MODPROBE and have.numbers >= choice.version.numbers
                offers = software.offered(name)
                matching = (offer for offer in offers if Version.of(offer) == choice.version)
                version = next(matching, "")
                if have and version and have != choice.version and not is_newer:
                    result[name] = version
        return result

    def displaced(self, state: DriverState, desired: Desired, choice: Choice) -> t.List[str]:
        """Return other builds of the kernel modules; those of a whole driver of others go only with adopt."""
        software, ours = state.software, state.history.record.packages
        there = filter(software.installed, software.packages)
        foreign = [name for name in there if name not in ours]
        excluded = [name for name in foreign if _excludes(state, choice, name)]
        user_space = [name for name in foreign if generation(name) and not state.type_of(name)]
        if any(generation(name) != generation(choice.kernel) for name in user_space):
            return []  # of all of it the refusal tells
        is_suses = all(map(SIGNED.fullmatch, excluded)) and not user_space
        if not excluded or is_suses or desired.adopt:
            return sorted(excluded)
        names = sorted({*excluded, *user_space})
        raise NodeError(
            f"{', '.join(sorted(excluded))} would have to give way to {choice.kernel}, and this module did not install "
            "it",
            cause="a node has one build of the kernel modules"
            + (f", and {', '.join(sorted(user_space))} came with these" if user_space else ""),
            hint="keep the driver that is there with source: preinstalled, have it exchanged with adopt: true, or "
            f"remove it, then run again: zypper remove {' '.join(names)}",
        )

    def excluded(self, names: t.Iterable[str], targets: t.Collection[str]) -> t.Set[str]:
        """Return the parts of other generations than that of the targets; their parts exclude each other."""
        generations = {"", *map(generation, targets)}
        excluded = {name for name in names if generation(name) not in generations}
        return excluded if len(generations) > 1 else set()

    def waits(self, state: DriverState, choice: Choice) -> str:
        kernels = _kernels_with_modules(state)
        if not kernels or not _bare(state, choice.kernel, choice.targets.get(choice.kernel)):
            return ""
        running = state.machine.kernel
        return f"the running kernel {running} has no modules of the driver: boot {kernels[0]}, which has them"

    def remedy(self, state: DriverState, choice: Choice, kernel: str) -> str:
        kernel_build = helping(state, choice.kernel, choice.version, kernel)
        if not kernel_build:
            return super().remedy(state, choice, kernel)
        return (
            f"; {choice.kernel} {kernel_build} is built for it. Next step: boot it and run again, which takes "
            "that build, or remove that kernel"
        )


SUSE = Suse()
