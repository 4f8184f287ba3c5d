# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node must have before anything is installed on it: room, file systems that can be written, package sources."""

from __future__ import annotations

import typing as t

from ..._base.space import Space
from .problems import Problem

MIB = 1 << 20
# Debian's driver 550 with DKMS: 467 MB in /usr after 104 MB of packages in /var.
DRIVER, PACKAGES = 600 * MIB, 200 * MIB
SOURCES = {
    "apt": ("/etc/apt/sources.list", "/etc/apt/sources.list.d"),
    # dnf 5 reads the others too (dnf5.conf, reposdir).
    "dnf": ("/etc/yum.repos.d", "/etc/distro.repos.d", "/usr/share/dnf5/repos.d"),
    "zypper": ("/etc/zypp/repos.d", "/etc/zypp/services.d"),
}


class Need(t.NamedTuple):
    """What will be written: where, how many bytes, and what it is. No bytes: whatever it is, it must be writable."""

    folder: str
    size: int
    what: str


def lacking(needs: t.Sequence[Need], spaces: t.Mapping[str, Space]) -> t.List[Problem]:
    """Return what has no room, by file system, and what can't be written at all."""
    found = []
    for device in dict.fromkeys(spaces[one.folder].device for one in needs):
        here = [one for one in needs if spaces[one.folder].device == device]
        space = spaces[here[0].folder]
        folders = ", ".join(dict.fromkeys(one.folder for one in here))
        total = sum(one.size for one in here)
        if space.read_only:
            hint = "mount it writable"
            found.append(Problem("", f"{folders}: the file system is read-only", hint))
        elif space.free < total:
            text = (
                f"{folders}: {space.free // MIB} MiB are free, and {total // MIB} MiB are needed: "
            )
            text += ", ".join(f"{one.size // MIB} for {one.what}" for one in here if one.size)
            found.append(Problem("", text, "free space there, or mount a larger file system"))
    return found


def initramfs(sizes: t.Sequence[int]) -> int:
    """Return the bytes that /boot needs: a new initramfs is written beside the one that it replaces."""
    return max(sizes, default=0) * 11 // 10


def no_sources(manager: str) -> Problem:
    """Return the problem of a node that knows no place to take packages from."""
    text = f"{manager} has no package source: there is nothing in {' or '.join(SOURCES[manager])}"
    return Problem("", text, "give the node the sources of its distribution, or of a mirror")


NO_ROOT = Problem(
    "", "the modules need root, and run as another user", "set become: true, for a user with sudo"
)
