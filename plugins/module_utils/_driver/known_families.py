# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The families of distributions by the names that the table of distributions gives them.

A family is imported when it is needed, since a node compiles whatever a module imports at each run. The imports are
statements, as Ansible sends a module only the files that it finds in import statements.
"""

from __future__ import annotations

from .family import UNSUPPORTED, Family


def load_family(name: str) -> Family:
    """Return the family of that name, or UNSUPPORTED if there is none."""
    if name == "debian":
        from .families.debian import DEBIAN

        return DEBIAN
    if name == "ubuntu":
        from .families.ubuntu import UBUNTU

        return UBUNTU
    if name == "rhel":
        from .families.rhel import RHEL

        return RHEL
    if name == "suse":
        from .families.suse import SUSE

        return SUSE
    return UNSUPPORTED
