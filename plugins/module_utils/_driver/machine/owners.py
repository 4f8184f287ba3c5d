# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages that have kernel modules or libraries of the driver and whose names are not known."""

from __future__ import annotations

from ..._base.errors import NodeError
from ..._base.packages.package import Change
from ..._node.machine.facts import library_files
from .kernel import module_files
from .sources import Node


def refuse_unknown_owners(node: Node, change: Change) -> None:
    """Refuse to install the driver beside kernel modules or libraries of a package that is not known.

    Raises:
        NodeError: if there is such a package. Of two drivers the kernel and the linker would each choose one.
    """
    traits, manager = node.family.traits, node.manager
    if not any(map(traits.type_of, change.packages)):
        return
    known = {*node.added.record.packages, *change.packages, *change.remove}
    modules = manager.owners(module_files(node.host))
    unknown = {path: name for path, name in modules.items() if not traits.type_of(name)}
    libraries = manager.owners(library_files(node.host))
    # Of NVIDIA's user space all names are not known.
    unknown.update((path, name) for path, name in libraries.items() if name[:7] != "nvidia-")
    unknown = {path: name for path, name in unknown.items() if name not in known}
    if unknown:
        names = sorted(set(unknown.values()))
        raise NodeError(
            f"{', '.join(names)} of another packager has files of the driver, and this module has not added it",
            cause=f"{', '.join(sorted(unknown))} would be there beside those of the packages to be installed",
            hint="keep that driver with source: preinstalled, or remove it, then run again: "
            f"{traits.purge} {' '.join(names)}",
        )
