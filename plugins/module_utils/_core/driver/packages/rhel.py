# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages in NVIDIA's repository for the RHEL family, which has none of its own."""

from __future__ import annotations

from .names import Names, Offer, Wanted, fabric


def packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages; only the fabric manager's name depends on what is offered."""
    return Names(
        title="RHEL family",
        family="rhel",
        kernel={"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"},
        user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
        persistenced="nvidia-persistenced",
        headers="kernel-devel-{}",
        **fabric(offered, wanted, "nvidia-fabric-manager"),
    )
