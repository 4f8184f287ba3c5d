# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The families by the names that the table of distributions has them by.

Each is loaded where it is asked for: what a module loads is compiled on the node each time.
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
