# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stages of the archive in Ubuntu's other releases and for its other kernels, by their names there.

Where each was seen:

22.04  linux-modules-nvidia-515-server-5.15.0-56-generic: NVIDIA's GPU operator documentation (F1). Versions of
       enablement kernels end in ~22.04.1: packages.ubuntu.com, jammy-updates, linux-image-generic-hwe-22.04.
24.04  linux-modules-nvidia-580-open-generic-hwe-24.04 6.14.0-37.37~24.04.1, and 7.0.0-34.34~24.04.1+1 later on: what
       dpkg and apt-cache told users in 2025 and 2026. linux-modules-nvidia-580-server-open-aws and -gcp, with kernels
       such as 6.17.0-1021-gcp: likewise. 550-server-6.8.0-1031-azure: NVIDIA's own list (F10).
       linux-nvidia-64k-hwe-24.04 and kernels such as 6.17.0-1014-nvidia-64k: packages.ubuntu.com, NVIDIA's DGX OS 7.
26.04  linux-modules-nvidia-580-open-generic 7.0.0-30.30, and -595 beside it: packages.ubuntu.com, resolute (F1, F3).
       Its apt may take solver 3.0, which plays where GPUNODE_APT and APT_CONFIG name it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, package_version


@dataclasses.dataclass(frozen=True)
class Release:
    """A release with an older and a newer kernel, and what brings these, as generic in linux-generic."""

    number: str
    codename: str
    older: str
    newer: str
    flavour: str

    def __str__(self) -> str:
        return f"{self.number}-{self.flavour}"

    def version(self, kernel: str) -> str:
        """Return the version of a kernel's packages."""
        hwe = f"~{self.number}.1" if "hwe" in self.flavour else ""
        return f"{package_version(kernel)}{hwe}"

    def of(self, packages: Iterable[Deb]) -> list[Deb]:
        """Return packages of the played 24.04 by their names and versions in this release."""
        return [
            dataclasses.replace(
                one,
                name=self.text(one.name),
                version=self.text(one.version),
                fields=self._pairs(one.fields),
                files=self._pairs(one.files),
            )
            for one in packages
        ]

    def _pairs(self, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((self.text(key), self.text(value)) for key, value in pairs)

    def text(self, text: str) -> str:
        """Return a text with the names and versions of this release."""
        there = {
            K85: self.older,
            K86: self.newer,
            package_version(K85): self.version(self.older),
            package_version(K86): self.version(self.newer),
            "0ubuntu0.24.04.1": f"0ubuntu0.{self.number}.1",
            "generic": self.flavour,
        }
        pattern = "|".join(map(re.escape, sorted(there, key=len, reverse=True)))
        return re.sub(pattern, lambda found: there[found[0]], text)


JAMMY = Release("22.04", "jammy", "5.15.0-160-generic", "5.15.0-161-generic", "generic")
RESOLUTE = Release("26.04", "resolute", "7.0.0-28-generic", "7.0.0-30-generic", "generic")
JAMMY_HWE = Release("22.04", "jammy", "6.8.0-84-generic", "6.8.0-85-generic", "generic-hwe-22.04")
NOBLE_HWE = Release("24.04", "noble", "6.17.0-35-generic", "7.0.0-34-generic", "generic-hwe-24.04")
FLAVOURS = (
    JAMMY_HWE,
    NOBLE_HWE,
    Release("22.04", "jammy", "6.8.0-1030-azure", "6.8.0-1031-azure", "azure"),
    Release("24.04", "noble", "6.17.0-1020-gcp", "6.17.0-1021-gcp", "gcp"),
    Release(
        "24.04", "noble", "6.17.0-1014-nvidia-64k", "7.0.0-1019-nvidia-64k", "nvidia-64k-hwe-24.04"
    ),
    Release("24.04", "noble", "6.8.0-1040-aws", "6.8.0-1041-aws", "aws"),
    Release("26.04", "resolute", "7.0.0-1014-nvidia", "7.0.0-1016-nvidia", "nvidia"),
)
