# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for SUSE and the RHEL family, and the module streams of the latter."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError
from ..packages.apt import upstream
from ..packages.package import Policy
from ..steps import Step
from . import branches as driver_branches
from .names import Names, Offer, Wanted, fabric

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
MODULE = "nvidia-driver"
MODULE_FILE = f"/etc/dnf/modules.d/{MODULE}.module"
# Only these releases of the RHEL family have modules of the driver.
RELEASES = ("8", "9")
ENDINGS = {"open": "open", "proprietary": "dkms"}
ROLLING = {"open": "open-dkms", "proprietary": "latest-dkms"}
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
        **fabric(offered, wanted),
    )


def _common(policies: t.Mapping[str, Policy], *names: str) -> t.FrozenSet[str]:
    """Return the driver's versions that packages share."""
    found = [policies[name].versions if name in policies else () for name in names]
    return frozenset.intersection(*(frozenset(map(upstream, versions)) for versions in found))


class Streams(t.NamedTuple):
    """The stream that is enabled, empty where none is, and those that are offered where it matters."""

    enabled: str = ""
    offered: t.Tuple[str, ...] = ()


def parse_enabled(text: str) -> str:
    """Return the stream in dnf's file of a module, empty where it is not enabled."""
    values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return values.get("stream", "") if values.get("state") == "enabled" else ""


def parse_list(text: str) -> t.Tuple[str, ...]:
    """Return the streams in the table of ``dnf module list``, in its order."""
    rows = re.findall(rf"^{MODULE}\s+(\S+)", text, flags=re.M)
    return tuple(dict.fromkeys(rows))


def stream_fits(stream: str, version: str, kind: str) -> bool:
    """Tell whether a stream has a version and a module type; an empty version fits every branch."""
    branch = driver_branches.branch(version) or r"\d+"
    return stream == ROLLING[kind] or bool(re.fullmatch(f"{branch}-{ENDINGS[kind]}", stream))


def stream_step(streams: Streams, version: str, kind: str) -> t.Optional[Step]:
    """Return the step, None where the enabled stream fits or none is offered.

    InputError names the streams that are offered where none of them fits.
    """
    if not streams.offered or stream_fits(streams.enabled, version, kind):
        return None
    fitting = [one for one in streams.offered if stream_fits(one, version, kind)]
    if not fitting:
        raise InputError.of(
            "version",
            version,
            f"a branch that the module {MODULE} has a stream of with {kind} kernel modules: "
            f"{', '.join(streams.offered)}",
        )
    exact = f"{driver_branches.branch(version)}-{ENDINGS[kind]}"
    rolling = next((one for one in fitting if one in ROLLING.values()), "")
    wanted = exact if exact in fitting else rolling
    wanted = wanted or max(fitting, key=lambda one: int(driver_branches.branch(one)))
    words = f", in place of {streams.enabled}" if streams.enabled else ""
    params = {"stream": wanted, "before": streams.enabled}
    return Step("stream", f"enable the module stream {MODULE}:{wanted}{words}", params)


def _devel(kernel: str) -> str:
    """Return the package of a kernel's headers, whose variants have theirs under other names."""
    variant = re.search(r"\+(64k|rt)$", kernel)
    if variant:
        return f"kernel-{variant[1]}-devel-{kernel[: variant.start()]}"
    return "kernel-uek-devel-{}" if re.search(r"el\d+uek\b", kernel) else "kernel-devel-{}"


def rhel_packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages; only the fabric manager's name depends on what is offered."""
    return Names(
        title="RHEL family",
        family="rhel",
        kernel={"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"},
        user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
        persistenced="nvidia-persistenced",
        headers=_devel(wanted.kernel),
        headers_first=True,  # rpm runs the script that builds wherever the transaction puts it
        **fabric(offered, wanted, "nvidia-fabric-manager"),
    )
