# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's components by the names that people use, and the packages that each means on a system.

DCGM's were seen in cmake/packaging.cmake of NVIDIA's DCGM 4.6, and in its installation guide what is proprietary.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing as t

from ..._base.errors import InputError
from ..branches import UnknownVersion, Version
from ..facts import DriverState
from .names import Names, part

NAMED = ("compute", "video", "graphics", "dcgm")
DCGM = "datacenter-gpu-manager-4"
HINT = "name NVIDIA's repository in repository with source: repository, or leave {} out"
# The first branch of the driver for each major version of CUDA: NVIDIA's CUDA compatibility guide.
CUDA = ((580, "13"), (525, "12"), (450, "11"))


def cuda(version: str) -> str:
    """Return the major version of CUDA of a driver's version or branch, empty if it is not known."""
    number = int(Version(version).branch or 0)
    return next((major for first, major in CUDA if number >= first), "")


def dcgm(major: str, *, proprietary: bool = True) -> t.Tuple[str, ...]:
    """Return the packages of DCGM; those for a major version of CUDA, or ``all``, are for its diagnostics.

    What is proprietary has the profiling metrics.
    """
    kinds = ["", "-proprietary"] if proprietary else [""]
    packages = [f"{DCGM}{kind or '-core'}" for kind in kinds]
    packages += [f"{DCGM}{kind}-cuda{major}" for kind in kinds if major and major != "all"]
    packages += [f"{DCGM}-cuda-all"] if major == "all" else []
    return tuple(packages)


ALL_DCGM = tuple(dict.fromkeys(name for _first, major in CUDA for name in dcgm(major)))


def named(components: t.Iterable[str]) -> t.List[str]:
    """Return the components among names of components and packages, in the order of their kinds."""
    known = set(components)
    return [component for component in NAMED if component in known]


def extend(names: Names, components: t.Sequence[str], version: str = "") -> Names:
    """Return the names with the components' packages in the user space."""
    parts = {**names.parts, "dcgm": dcgm(cuda(version))}
    packages = [name for component in named(components) for name in parts.get(component, ())]
    loose = {name for name in packages if name.startswith(DCGM)}
    user_space = tuple(dict.fromkeys((*names.user_space, *packages)))
    return dataclasses.replace(names, user_space=user_space, loose=names.loose | loose)


def chosen(names: Names, components: t.Sequence[str]) -> t.Tuple[str, ...]:
    """Return the packages of the user space: those of components and named packages, or named packages alone."""
    plain = tuple(component for component in components if component not in NAMED)
    return (*names.user_space, *plain) if len(plain) < len(components) or not components else plain


def check_name(name: str) -> None:
    """Refuse a name that is a misspelt component."""
    near = difflib.get_close_matches(name, NAMED, 1, 0.75) if name not in NAMED else []
    if near and name.isalpha():
        raise InputError.of("components", name, f"{near[0]}, or the name of a package")


def check(state: DriverState, components: t.Sequence[str], *, persistence: bool) -> None:
    """Refuse names of components and packages that are not valid."""
    names = state.software.names
    for name in components:
        check_name(name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", name):
            raise InputError.of("components", name, f"names of {names.title} packages")
        if state.type_of(name):
            expected = "no kernel modules: kernel_modules chooses them"
            raise InputError.of("components", name, expected)
    if persistence and names.persistenced not in chosen(names, components):
        expected = f"{names.persistenced} among them, or persistence to be false"
        raise InputError.of("components", list(components), expected)


def _stem(package: str) -> str:
    return re.sub(r"-G\d\d$", "", part(package))


def dropped(names: Names, components: t.Sequence[str], requested: t.Iterable[str]) -> t.List[str]:
    """Return the requested packages of components that are no longer desired.

    ``names`` have the components that are desired.
    """
    stems = {_stem(package) for parts in names.parts.values() for package in parts}
    stems -= {_stem(package) for package in chosen(names, components)}
    gone = {package for package in requested if _stem(package) in stems}
    diagnostics = {package for package in requested if package.startswith(DCGM)}
    return sorted(gone | diagnostics.difference(chosen(names, components)))


class NotOffered(UnknownVersion):
    """A component that the sources have no package of."""


def missing(state: DriverState, components: t.Iterable[str]) -> t.Optional[NotOffered]:
    """Return the error for the first component whose packages are not offered, None if there is none.

    Where the sources do not even have the rest of the driver yet, only DCGM is known to be missing: no
    distribution has it.
    """
    names = state.software.names
    offered = bool(names.user_space) and bool(state.software.versions(names.user_space[0]))
    for component in named(components):
        dcgm, parts = component == "dcgm", names.parts.get(component, ())
        if component == "compute" or not (offered or dcgm):
            continue
        needed = [name for name in names.user_space if name.startswith(DCGM)] if dcgm else parts
        lacking = [name for name in needed if not state.software.versions(name)]
        if lacking:
            nvidia = f"NVIDIA's repository for {names.title}"
            where = (not dcgm and state.machine.traits.archive) or nvidia
            expected = "a component that the node's sources have: no source has "
            expected += f"{', '.join(lacking)}, and {where} does"
            error = InputError.of("components", component, expected)
            return NotOffered(error.message, cause=error.cause, hint=HINT.format(component))
    return None
