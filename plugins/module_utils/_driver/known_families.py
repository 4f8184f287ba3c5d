# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The families of distributions by the names that the table of distributions gives them.

A family is imported when it is needed, since a node compiles whatever a module imports at each run. The imports are
statements, as Ansible sends a module only the files that it finds in import statements.
"""

from __future__ import annotations

import typing as t

from .family import Family


def _debian() -> Family:
    from .families.debian import DEBIAN

    return DEBIAN


def _ubuntu() -> Family:
    from .families.ubuntu import UBUNTU

    return UBUNTU


def _rhel() -> Family:
    from .families.rhel import RHEL

    return RHEL


def _suse() -> Family:
    from .families.suse import SUSE

    return SUSE


FAMILIES: t.Mapping[str, t.Callable[[], Family]] = {
    "debian": _debian,
    "ubuntu": _ubuntu,
    "rhel": _rhel,
    "suse": _suse,
}
