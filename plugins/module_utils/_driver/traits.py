# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What distinguishes the families of distributions, as data."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Traits:
    """What distinguishes a family; the defaults are those of a distribution that is not supported.

    Attributes:
        name: As gpu.node's table of distributions has it.
        apt: Whether its package manager is apt.
        pattern: Regular expression of the names of all packages that have kernel modules of the driver.
        archive: The part of the distribution's own archive that has its driver. Empty if NVIDIA's repository alone
            has it.
        has_precompiled: Whether users choose between precompiled kernel modules and those that DKMS builds.
        module: The module of dnf that has the driver in streams.
        locking: The package without which no package can be held.
        builds: Whether kernel modules are built for one kernel and may serve others.
        kernels: Regular expression of the kernels that are installed along with kernel modules.
        unhold: The command that releases a hold.
        purge: The command that removes packages.
    """

    name: str = ""
    apt: bool = False
    pattern: str = ""
    archive: str = ""
    has_precompiled: bool = False
    module: str = ""
    locking: str = ""
    builds: bool = False
    kernels: str = ""
    unhold: str = "apt-mark unhold"
    purge: str = "apt-get purge"

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules in a package, or an empty string if it has none."""
        if not re.fullmatch(self.pattern, package):
            return ""
        return "open" if "open" in package.split("-") else "proprietary"
