# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages in Debian, and in NVIDIA's repository for it.

The components are in the package lists of bookworm and trixie, non-free; NVIDIA's repository has Debian's names.
"""

from __future__ import annotations

import typing as t

from ..facts import Traits
from ..family import Family
from ..packages.names import (
    PREFERRED,
    Archive,
    Headers,
    ModulePackages,
    Names,
    Offer,
    Requirements,
    fabric,
)

COMMON: t.Dict[str, t.Any] = {
    "title": "Debian",
    "persistenced": "nvidia-persistenced",
    "headers": Headers("linux-headers-{}"),
    "parts": {
        "video": ("libnvcuvid1", "libnvidia-encode1"),
        "graphics": ("libgles-nvidia2", "nvidia-driver-libs", "nvidia-vulkan-icd"),
    },
}
DISTRIBUTION: t.Dict[str, t.Any] = {
    "modules": ModulePackages(
        {"open": "nvidia-open-kernel-dkms", "proprietary": "nvidia-kernel-dkms"}
    ),
    "archive": Archive(
        ("contrib", "non-free", "non-free-firmware"),
        {"": "nvidia-graphics-drivers", "open": "nvidia-open-gpu-kernel-modules"},
    ),
    "user_space": (
        *("libcuda1", "libnvidia-ml1", "nvidia-cuda-mps", "nvidia-persistenced", "nvidia-smi"),
    ),
    "companion": ("libnvidia-cfg1",),
    "firmware": "firmware-nvidia-gsp",
    "loose": frozenset({"nvidia-persistenced"}),
}
REPOSITORY: t.Dict[str, t.Any] = {
    "modules": ModulePackages(
        {"open": "nvidia-kernel-open-dkms", "proprietary": "nvidia-kernel-dkms"}
    ),
    "archive": Archive(("contrib",), alike=PREFERRED),
    "user_space": ("nvidia-driver-cuda", "nvidia-persistenced"),
}


class Debian(Family):
    """Debian, whose kernel modules are built by DKMS."""

    traits = Traits(
        name="debian",
        apt=True,
        pattern=r"nvidia(?:-open-kernel|-kernel(?:-open)?)-dkms",
        archive="Debian's component non-free",
    )

    def names(self, offered: Offer, requirements: Requirements) -> Names:
        """Return the packages; only the fabric manager's name depends on what is offered."""
        origin = REPOSITORY if requirements.repository else DISTRIBUTION
        return Names(**COMMON, **origin, **fabric(offered, requirements))


DEBIAN = Debian()
