# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The systems of the RHEL family that are played: how they call themselves, their kernels and what they lack."""

from __future__ import annotations

from typing import NamedTuple


class System(NamedTuple):
    """A system: what os-release has, two kernels, and what its repositories are like.

    ``streams`` says that NVIDIA's repository for it has module streams, ``matched`` that its kernel has the
    package that ties kernel and headers, ``core`` and ``devel`` what kernel and headers are called, ``epel`` that
    dkms comes from there, ``tool`` its package manager.
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
    epel: bool = True
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
# dnf is dnf 5 since Fedora 41. NVIDIA's repository for Fedora 44 has no streams: the same table. Its kernels are
# 7.1.13-200 and 7.2.7-200, its dkms is its own.
FEDORA = System(
    "fedora",
    "44",
    "Fedora Linux 44 (Server Edition)",
    "7.1.13-200.fc44.x86_64",
    "7.2.7-200.fc44.x86_64",
    "fc44",
    "platform:f44",
    epel=False,
    tool="dnf5",
)
# NVIDIA's repository for it has streams: the same table. Its headers are called after its kernels: 6.1's are
# kernel-devel, 6.12's kernel6.12-devel. dkms is its own, of a time before kernel-devel-matched.
AMAZON = System(
    "amzn",
    "2023",
    "Amazon Linux 2023.9.20251020",
    "6.12.37-61.105.amzn2023.x86_64",
    "6.12.40-64.114.amzn2023.x86_64",
    "amzn2023",
    "platform:al2023",
    streams=True,
    matched=False,
    core="kernel6.12",
    devel="kernel6.12-devel",
    epel=False,
)
# Oracle's own kernel, whose core package and headers have names of their own; dkms comes from Oracle's copy of EPEL.
ORACLE = System(
    "ol",
    "9.6",
    "Oracle Linux Server 9.6",
    "5.15.0-310.185.4.el9uek.x86_64",
    "6.12.0-103.40.4.2.el9uek.x86_64",
    "el9",
    "platform:el9",
    streams=True,
    matched=False,
    core="kernel-uek-core",
    devel="kernel-uek-devel",
)
