# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ubuntu's prebuilt kernel modules: for which version of the driver each is built, and which go together.

A package of them is of one kernel and in the kernel's versions. The lower bound of what it needs of
nvidia-kernel-common is the driver's version that it is built for; that newer ones satisfy the bound too does
not make its modules work with them.
"""

from __future__ import annotations

import re
import typing as t

from ..packages.apt import upstream
from ..steps import Step
from .adoption.found import TRACKED
from .state import Observed

EXACT = re.compile(r"(\S+) \(= (\S+)\)")
OBJECTS = "linux-objects-nvidia-"
FLAVOUR = re.compile(r"-([a-z][a-z0-9-]*)$")


def built_for(needs: t.Iterable[str], anchor: str) -> str:
    """Return the version of the driver by what a package needs of the anchor, empty where it does not say."""
    pattern = re.compile(re.escape(anchor) + r" \(>= (\S+)\)")
    found = [match[1] for match in map(pattern.fullmatch, needs) if match]
    return upstream(f"{found[0]}-") if found else ""


def builds(observed: Observed, package: str) -> t.Dict[str, str]:
    """Return the driver's version of each version of a package, newest first, empty where it is not known."""
    needs = observed.relations.get(package, {})
    return {
        one: built_for(needs.get(one, ()), observed.names.anchor)
        for one in observed.versions(package)
    }


def build(observed: Observed, package: str, version: str) -> t.Optional[str]:
    """Return the package's version to have for a version of the driver: what is there, else apt's choice."""
    if package in observed.refused:
        return None
    found = [one for one, driver in builds(observed, package).items() if driver in ("", version)]
    preferred = [observed.installed(package), observed.candidate(package), *found]
    return next((one for one in preferred if one in found), None)


def of_kernel(observed: Observed, kind: str, kernel: str) -> str:
    """Return the package that has the modules of a kernel, empty where there are none of the kind."""
    name = observed.names.prebuilt.get(kind, "")
    return name[: -len(observed.kernel)] + kernel if name.endswith(observed.kernel) else ""


def newer(observed: Observed) -> t.List[str]:
    """Return the kernels that can be booted and are newer than the running one, newest first."""
    running = _order(observed.kernel)
    found = [one for one in observed.modules.kernels if _order(one) > running]
    return sorted(found, key=_order, reverse=True)


def awaited(observed: Observed, kind: str) -> t.Tuple[str, str]:
    """Return the driver's version that is installed and the newest kernel whose modules of it wait for the boot."""
    version = upstream(observed.installed(observed.names.anchor) or "-")
    for kernel in newer(observed):
        package = of_kernel(observed, kind, kernel)
        if builds(observed, package).get(observed.installed(package) or "") == version:
            return version, kernel
    return "", ""


def _order(kernel: str) -> t.List[int]:
    return [int(one) for one in re.findall(r"\d+", kernel)]


def refused(observed: Observed, steps: t.Iterable[Step], words: str) -> t.List[str]:
    """Return the prebuilt modules among what is to be installed that a refusal names, all where it names none."""
    start = tuple({of_kernel(observed, kind, "") for kind in observed.names.prebuilt} - {""})
    names = [name for step in steps for name in step.params.get("packages", ())]
    ready = [name for name in names if start and name.startswith(start)]
    ready = [name for name in ready if name not in observed.refused]
    return [name for name in ready if name in words] or ready


def covered(observed: Observed, kind: str, version: str) -> int:
    """Return how many of the newer kernels have modules that are built for a version."""
    packages = [of_kernel(observed, kind, one) for one in newer(observed)]
    return sum(build(observed, one, version) is not None for one in packages)


def targets(observed: Observed, kind: str, version: str, *, follow: bool) -> t.Dict[str, str]:
    """Return the packages for a version, each with its own: of the running kernel, newer ones, and the one before.

    ``follow`` adds the tracking package, with which the modules of a new kernel come by themselves.
    """
    names = [of_kernel(observed, kind, one) for one in (observed.kernel, *newer(observed))]
    names += _before(observed, kind)
    found = {name: build(observed, name, version) for name in names}
    chosen = {name: one for name, one in found.items() if one is not None}
    return {**chosen, **_tracking(observed, kind, chosen, follow=follow)}


def exactly(observed: Observed, chosen: t.Mapping[str, t.Optional[str]]) -> t.Dict[str, str]:
    """Return the versions of what chosen modules need in one version only: their signatures and objects."""
    needs = (observed.relations.get(name, {}).get(one or "", ()) for name, one in chosen.items())
    found = (match for group in needs for match in map(EXACT.fullmatch, group) if match)
    return {match[1]: match[2] for match in found if match[1] not in chosen}


def _before(observed: Observed, kind: str) -> t.List[str]:
    """Return the package that this module has added for the kernel before the running one.

    Those of older kernels would keep them on the node for ever, and fill /boot.
    """
    start, running = of_kernel(observed, kind, ""), _order(observed.kernel)
    kernels = [name[len(start) :] for name in observed.record.packages if name.startswith(start)]
    older = [one for one in kernels if one[:1].isdigit() and _order(one) < running]
    there = [one for one in older if observed.installed(f"{start}{one}")]
    return [f"{start}{one}" for one in sorted(there, key=_order)[-1:]]


def objects(observed: Observed, drop: t.Iterable[str], taken: t.Collection[str]) -> t.List[str]:
    """Return what modules that go were linked from, as far as it is ours: apt keeps what has a kernel's name."""
    names = [name.replace("linux-modules-", "linux-objects-", 1) for name in drop]
    ours = {*observed.record.packages, *taken}
    return [
        one for one in names if one.startswith(OBJECTS) and one in ours and observed.installed(one)
    ]


def flavours(observed: Observed) -> t.List[str]:
    """Return what the packages that bring new kernels are called after linux-image-: generic, generic-hwe-24.04."""
    match = FLAVOUR.search(observed.kernel)
    found = [name[len("linux-image-") :] for name in observed.packages if _is_meta(name)]
    return [one for one in found if match and one.startswith(match[1])]


def _is_meta(name: str) -> bool:
    return bool(re.fullmatch(r"linux-image-[a-z].*", name))


def metapackages(observed: Observed) -> t.List[str]:
    """Return the installed packages that bring new kernels and their headers."""
    forms = ("linux-{}", "linux-image-{}", "linux-headers-{}")
    names = [form.format(one) for one in flavours(observed) for form in forms]
    return [name for name in names if observed.installed(name)]


def tracking(observed: Observed, kind: str) -> t.List[str]:
    """Return the names that tracking packages of the driver would have, and those that are installed."""
    start = of_kernel(observed, kind, "")
    pattern = re.compile(re.escape(start) + TRACKED)
    there = (one for one in filter(pattern.fullmatch, observed.packages) if observed.installed(one))
    named = (f"{start}{one}" for one in flavours(observed))
    return [*dict.fromkeys((*named, *there))] if start else []


def _tracking(
    observed: Observed, kind: str, chosen: t.Mapping[str, str], *, follow: bool
) -> t.Dict[str, str]:
    """Return the tracking packages at a version that needs what was chosen, and nothing else."""
    exact = {f"{name} (= {version})" for name, version in chosen.items()}
    found = {}
    for name in tracking(observed, kind):
        needs = observed.relations.get(name, {})
        fitting = [one for one in observed.versions(name) if exact & set(needs.get(one, ()))]
        if fitting and name not in observed.refused and (follow or observed.installed(name)):
            installed = observed.installed(name)
            found[name] = installed if installed in fitting else fitting[0]
    return found
