# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The systems of the RHEL family that are played: how they call themselves, their kernels and what they lack."""

from __future__ import annotations

from typing import NamedTuple


class System(NamedTuple):
    """A system: what os-release has, two kernels, and what its repositories are like.

    ``streams`` says that NVIDIA's repository for it has module streams, ``matched`` that its kernel has the
    package that ties kernel and headers, ``devel`` what the headers are called, ``tool`` its package manager.
    """

    ident: str
    version: str
    title: str
    kernel: str
    newer: str
    dist: str
    platform: str = ""
    streams: bool = False
    matched: bool = True
    core: str = "kernel-core"
    devel: str = "kernel-devel"
    tool: str = "dnf"

    @property
    def os_release(self) -> str:
        """Return the text of os-release."""
        return f'ID="{self.ident}"\nVERSION_ID="{self.version}"\nPRETTY_NAME="{self.title}"\n'


EL8 = System(
    "rocky",
    "8.10",
    "Rocky Linux 8.10 (Green Obsidian)",
    "4.18.0-553.16.1.el8_10.x86_64",
    "4.18.0-553.22.1.el8_10.x86_64",
    "el8",
    "platform:el8",
    streams=True,
    matched=False,  # it came to the kernel's packages with RHEL 9
)
EL9 = System(
    "rocky",
    "9.6",
    "Rocky Linux 9.6 (Blue Onyx)",
    "5.14.0-570.12.1.el9_6.x86_64",
    "5.14.0-570.23.1.el9_6.x86_64",
    "el9",
    "platform:el9",
    streams=True,
)
# NVIDIA's repository for RHEL 10 has no module streams: Driver Installation Guide 620, kernel modules, table 5.
EL10 = System(
    "almalinux",
    "10.1",
    "AlmaLinux 10.1 (Heliotrope Lion)",
    "6.12.0-124.20.1.el10_1.x86_64",
    "6.12.0-124.21.1.el10_1.x86_64",
    "el10",
    "platform:el10",
)
