# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kernel modules of the RHEL family that are compiled already and signed: a package for each kernel and version.

The driver's version and the kernel, without what names the distribution, are in the package's name. NVIDIA
makes the proprietary ones, signed with a key of its own, Red Hat the open ones, signed as its kernels are.
"""

from __future__ import annotations

import re
import typing as t

from ...._base.errors import NodeError
from ... import branches
from ...branches import NO_VERSION, Version
from ...names import Names, Offer, Wanted

PREFIX = "kmod-*nvidia"
PATTERN = r"kmod-(?:64k-)?nvidia-(?:open-)?\d+(?:\.\d+)+-\d.*"
VERSION = re.compile(r"nvidia-(?:open-)?(\d+(?:\.\d+)+)-")


def is_precompiled(package: str) -> bool:
    """Tell whether a package has such modules."""
    return bool(re.fullmatch(PATTERN, package))


def version_of(package: str) -> Version:
    """Return the driver's version in a package's name."""
    found = VERSION.search(package)
    return Version(found[1] if found else "")


def of_kernel(names: t.Iterable[str], kernel: str, kind: str) -> t.Dict[Version, str]:
    """Return those of the packages that are for a kernel, by their version, newest first."""
    base, _plus, variant = kernel.partition("+")
    short = base.rpartition(".")[0].rpartition(".")[0]
    start = f"kmod-{variant}-nvidia-" if variant else "kmod-nvidia-"
    start += "open-" if kind == "open" else ""
    form = re.compile(rf"{re.escape(start)}(\d+(?:\.\d+)+)-{re.escape(short)}")
    found = {Version(match[1]): match[0] for match in map(form.fullmatch, names) if match}
    order = sorted(found, key=lambda one: one.numbers, reverse=True)
    return {version: found[version] for version in order}


def choose(offered: Offer, wanted: Wanted, kind: str) -> t.Tuple[str, ...]:
    """Return the package for the running kernel, and those of its version for others that can be booted.

    None fits: empty. What is installed stays unless the newest is wanted.
    """
    names = {*offered.names, *offered.installed}
    found = of_kernel(names, wanted.kernel, kind)
    version = wanted.version.split(":")[-1].split("-")[0]
    fitting = [one for one in found if one.fits(version)]
    able = branches.able(fitting, wanted.gpus)
    there = [] if wanted.newest else [one for one in able if found[one] in offered.installed]
    chosen = next(iter((*there, *able)), NO_VERSION)
    kernels = (wanted.kernel, *(one for one in wanted.kernels if one != wanted.kernel))
    packages = (of_kernel(names, one, kind).get(chosen, "") for one in kernels)
    return tuple(one for one in packages if one)


def check_required(kernel: str, package: str, names: t.Iterable[str]) -> None:
    """Refuse where precompiled modules are required and the sources have none that fit; ``names`` are all of theirs."""
    if is_precompiled(package):
        return
    kernels = _kernels(names)
    raise NodeError(
        f"the sources offer no precompiled kernel modules that fit the running kernel {kernel}",
        cause=f"they have some for the kernels {', '.join(kernels)}"
        if kernels
        else "they have none at all",
        hint="boot such a kernel, ask for another version or kernel_modules, or set precompiled to auto, where DKMS "
        "builds them",
    )


def refuse_key(package: str) -> None:
    """Refuse modules that are signed with a key of NVIDIA's that the firmware does not know."""
    raise NodeError(
        "Secure Boot is on",
        cause=f"{package} is signed with NVIDIA's key, which is not enrolled, so the kernel rejects it",
        hint="get NVIDIA2019-public_key.der from the folder of NVIDIA's repository, mokutil --import it, reboot and "
        "confirm it on the console. Set secure_boot to ignore if it is enrolled under another name",
    )


def instead(names: Names, asked: str) -> str:
    """Return what else there is to do where modules from DKMS are refused."""
    found = next(filter(is_precompiled, names.kernel.values()), "")
    if asked == "never" or not names.precompiled:
        return ""
    if found:
        kind = "open" if "-open-" in found else "proprietary"
        return f", or set kernel_modules to {kind}, whose modules {found} are signed already"
    return f", or boot a kernel that has modules which are signed already: {', '.join(_kernels(names.precompiled))}"


def _kernels(names: t.Iterable[str]) -> t.List[str]:
    return sorted({VERSION.split(one, maxsplit=1)[-1] for one in names})
