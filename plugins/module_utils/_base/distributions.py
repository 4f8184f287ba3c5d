# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Distributions by what /etc/os-release calls them, and whose packages they have."""

from __future__ import annotations

import typing as t

DEBIAN, UBUNTU, FEDORA, AMAZON = ("debian",), ("ubuntu",), ("fedora",), ("amzn",)
RHEL = ("rhel", "rocky", "almalinux", "centos", "ol")
SUSE = ("sles", "opensuse-leap")
FAMILIES = {
    **dict.fromkeys(DEBIAN, "debian"),
    **dict.fromkeys(UBUNTU, "ubuntu"),
    **dict.fromkeys((*RHEL, *FEDORA, *AMAZON), "rhel"),
    **dict.fromkeys((*SUSE, "suse"), "suse"),  # all of SUSE's are like suse
}


def family(release: t.Mapping[str, str]) -> str:
    """Return the family of a system by its ID, else by what it is like; empty for one that is not known."""
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((FAMILIES[word] for word in words if word in FAMILIES), "")
