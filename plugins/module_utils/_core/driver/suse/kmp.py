# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""SUSE's packages of kernel modules (KMP): which kernel a build is made for, and which one a kernel is to have.

Their version is <driver>_k<kernel>. A build serves that kernel and later ones of its service pack, until SUSE breaks
the kernel's ABI. There is one build on a node at a time, for all of its kernels.
"""

from __future__ import annotations

import re
import typing as t

from ...packages.apt import upstream
from .. import prebuilt
from ..names import FLAVOUR
from ..state import Observed

BUILT_FOR = re.compile(r"_k(\d[\w.]*)-[^-]+$")
GENERATION = re.compile(r"^nvidia-.*-(G\d\d)(?:-|$)")


def built_for(version: str) -> str:
    """Return the kernel that a build is made for, without its flavour; empty where the version does not say."""
    found = BUILT_FOR.search(version)
    return found[1].replace("_", "-") if found else ""


def _order(kernel: str) -> t.List[int]:
    return [int(one) for one in re.findall(r"\d+", FLAVOUR.sub("", kernel))]


def _nearest(versions: t.Iterable[str], kernel: str) -> t.List[str]:
    """Return the builds that are not for newer kernels, the nearest first."""
    found = [one for one in versions if _order(built_for(one)) <= _order(kernel)]
    return sorted(found, key=lambda one: _order(built_for(one)), reverse=True)


def _builds(observed: Observed, package: str, driver: t.Optional[str]) -> t.List[str]:
    return [one for one in observed.versions(package) if built_for(one) and upstream(one) == driver]


def build(observed: Observed, package: str, driver: str) -> t.Optional[str]:
    """Return the build of a version of the driver for the running kernel, None where there is none.

    What is installed stays where it has modules for that, and where an update has brought it for a newer kernel while
    the driver of before is loaded.
    """
    found, have = _builds(observed, package, driver), observed.installed(package)
    updated = observed.loaded is not None and bool(_served(observed))
    if have in found and (updated or observed.kernel not in observed.modules.bare):
        return have
    return next((one for one in _nearest(found, observed.kernel) if one != have), None)


def usable(observed: Observed, package: str, drivers: t.Sequence[str]) -> t.List[str]:
    """Return those of the driver's versions that the running kernel has a build of, all where there is none."""
    return [one for one in drivers if build(observed, package, one)] or [*drivers]


def helping(observed: Observed, package: str, driver: t.Optional[str], kernel: str) -> str:
    """Return the build of a version of the driver that a kernel without modules would get, empty without one."""
    have = observed.installed(package) or ""
    found = _nearest(_builds(observed, package, driver), kernel)
    return next((one for one in found if _order(built_for(one)) > _order(built_for(have))), "")


def _bare(observed: Observed, package: str, version: t.Optional[str]) -> bool:
    """Tell whether a build is installed and the running kernel cannot use it."""
    there = version is not None and version == observed.installed(package)
    return there and bool(built_for(version or "")) and observed.kernel in observed.modules.bare


def _served(observed: Observed) -> t.List[str]:
    """Return the newer kernels that have modules, newest first."""
    return [one for one in prebuilt.newer(observed) if one not in observed.modules.bare]


def waits(observed: Observed, package: str, version: t.Optional[str]) -> str:
    """Say that the modules are there for a newer kernel only, which is to be booted."""
    kernels = _served(observed)
    if not kernels or not _bare(observed, package, version):
        return ""
    return (
        f"the running kernel {observed.kernel} has no modules of the driver: boot {kernels[0]}, which has "
        "them"
    )


def useless(observed: Observed, package: str, version: t.Optional[str]) -> bool:
    """Tell whether what is installed cannot be loaded, by the running kernel or after a boot into a newer one."""
    bare = observed.loaded is None and _bare(observed, package, version)
    return bare and not _served(observed)


def generation(package: str) -> str:
    """Return the generation in the name of a part of SUSE's driver, as G06, empty where it has none."""
    found = GENERATION.match(package)
    return found[1] if found else ""


def of_others(names: t.Iterable[str], targets: t.Iterable[str]) -> t.Set[str]:
    """Return the parts of other generations than that of the targets; their parts exclude each other."""
    wanted = {generation(one) for one in targets} - {""}
    return {one for one in names if wanted and generation(one) not in {"", *wanted}}
