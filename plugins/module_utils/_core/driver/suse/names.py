# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for SUSE."""

from __future__ import annotations

import re
import typing as t

from ...packages.apt import upstream
from ...packages.package import Policy
from .. import branches as driver_branches
from ..names import Names, Offer, Wanted, fabric

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
SUSE_MODULES = r"nvidia-(?:open-)?driver-G\d+(?:-(?:signed-)?(?:cuda-)?kmp-\w+)?"


def kernel_flavour(kernel: str) -> str:
    """Return the flavour that the name of a running kernel ends with, such as default or azure."""
    match = re.search(r"-([a-z][a-z0-9]*|64kb)$", kernel)
    return match[1] if match else "default"


def suse_candidates(kernel: str) -> t.Tuple[str, ...]:
    """Return every package that decides about the names."""
    flavour = kernel_flavour(kernel)
    found = [
        form.format(one, flavour)
        for one in GENERATIONS
        for form in (UTILITIES, *(form for forms in KERNEL.values() for form in forms))
    ]
    return (DAEMON, *found)


def suse_packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages whose kernel modules and user space have a version in common.

    What is installed stays where it fits.
    """
    flavour = kernel_flavour(wanted.kernel)
    version = upstream(wanted.version or driver_branches.last(wanted.gpus))
    older = int(driver_branches.branch(version) or NEWER_FROM) < NEWER_FROM
    policies = dict(offered.policies)
    for name in offered.installed.keys() & set(suse_candidates(wanted.kernel)):
        found = policies.get(name, Policy(None, ()))
        policies[name] = found._replace(versions=(*found.versions, offered.installed[name]))

    def rank(package: str, generation: str) -> int:
        both = _common(policies, package, UTILITIES.format(generation))
        return 0 if any(driver_branches.fits(one, version) for one in both) else 1 if both else 2

    def package(generation: str, of: str) -> str:
        def order(name: str) -> t.Tuple[int, bool, bool]:
            return rank(name, generation), name not in offered.installed, name not in policies

        return min((form.format(generation, flavour) for form in KERNEL[of]), key=order)

    generation = min(
        GENERATIONS,
        key=lambda one: (
            rank(package(one, wanted.module_type), one),
            not any(f"-{one}" in name for name in offered.installed),
            UTILITIES.format(one) not in policies,
            older == (one == GENERATIONS[0]),
        ),
    )
    utilities = UTILITIES.format(generation)
    # Older utilities have the persistence daemon in them.
    both = _common(policies, DAEMON, utilities)
    daemon = DAEMON if any(driver_branches.fits(one, version) for one in both) else utilities
    kernel = {of: package(generation, of) for of in KERNEL}
    return Names(
        title="SUSE",
        family="suse",
        kernel=kernel,
        user_space=tuple(dict.fromkeys((f"nvidia-compute-{generation}", utilities, daemon))),
        persistenced=daemon,
        signed=frozenset(name for name in kernel.values() if "-signed-" in name),
        pattern=SUSE_MODULES,
        headers="" if "-kmp-" in kernel[wanted.module_type] else f"kernel-{flavour}-devel={{bare}}",
        headers_first=True,
        **fabric(offered, wanted),
    )


def _common(policies: t.Mapping[str, Policy], *names: str) -> t.FrozenSet[str]:
    """Return the driver's versions that packages share."""
    found = [policies[name].versions if name in policies else () for name in names]
    return frozenset.intersection(*(frozenset(map(upstream, versions)) for versions in found))
