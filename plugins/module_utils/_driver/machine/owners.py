# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages that have kernel modules of the driver and whose names are not known."""

from __future__ import annotations

import posixpath
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Change
from ..._machine.host import Host
from ..kernel.modules import driver_files
from .kernel import KERNELS
from .sources import Node


def refuse_unknown_owners(node: Node, change: Change) -> None:
    """Refuse to install kernel modules beside those of a package that is not known.

    Raises:
        NodeError: if there is such a package. The kernel would load one of two drivers, by the order of their folders.
    """
    traits, ours = node.family.traits, node.added.record.packages
    if not any(map(traits.type_of, change.packages)):
        return
    owners = node.manager.owners(_module_files(node.host))
    unknown = {
        path: name
        for path, name in owners.items()
        if name not in ours and name not in change.remove and not traits.type_of(name)
    }
    if unknown:
        names = sorted(set(unknown.values()))
        raise NodeError(
            f"{', '.join(names)} of another packager has kernel modules of the driver, and this module has not added "
            "it",
            cause=f"{', '.join(sorted(unknown))} would be there beside those of the packages to be installed",
            hint="keep that driver with source: preinstalled, or remove it, then run again: "
            f"{traits.purge} {' '.join(names)}",
        )


def _module_files(host: Host) -> t.List[str]:
    """Return the paths of the driver's main module for each kernel on the node."""
    return [
        posixpath.join(KERNELS, kernel, path)
        for kernel in host.listdir(KERNELS)
        for path in driver_files(host.read(f"{KERNELS}/{kernel}/modules.dep") or "")
    ]
