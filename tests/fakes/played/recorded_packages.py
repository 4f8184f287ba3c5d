# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages that were seen on machines with Ubuntu's and NVIDIA's own repositories, by others than us.

Each list has all the packages of the driver that its record names, in the order of the record.
"""

from __future__ import annotations

# Ubuntu 22.04, from apt's history of 2025-10-21: what came with the branch for servers.
JAMMY_VERSION = "570.195.03-0ubuntu0.22.04.2"
JAMMY = (
    "nvidia-driver-570-server",
    "libnvidia-gl-570-server",
    "libnvidia-decode-570-server",
    "libnvidia-fbc1-570-server",
    "nvidia-kernel-source-570-server",
    "libnvidia-cfg1-570-server",
    "libnvidia-extra-570-server",
    "nvidia-compute-utils-570-server",
    "libnvidia-encode-570-server",
    "nvidia-kernel-common-570-server",
    "libnvidia-compute-570-server",
    "xserver-xorg-video-nvidia-570-server",
    "nvidia-utils-570-server",
    "nvidia-firmware-570-server-570.195.03",
    "nvidia-dkms-570-server",
    "libnvidia-common-570-server",
)
# Ubuntu Server 24.04.4 as it was installed, and nvidia-utils; the record has the driver's version only.
NOBLE_KERNEL = "6.8.0-106-generic"
NOBLE_VERSION = "570.211.01"
NOBLE = (
    "libnvidia-cfg1-570-server",
    "libnvidia-compute-570-server",
    "linux-modules-nvidia-570-server-open-6.8.0-106-generic",
    "linux-modules-nvidia-570-server-open-generic",
    "nvidia-compute-utils-570-server",
    "nvidia-firmware-570-server-570.211.01",
    "nvidia-headless-no-dkms-570-server-open",
    "nvidia-kernel-common-570-server",
    "nvidia-kernel-source-570-server-open",
    "nvidia-utils-570-server",
)
# RHEL 8.8: what dnf removed with the stream nvidia-driver:latest-dkms, all of epoch 3 and release 1.el8.
EL8_VERSION = "535.183.06"
EL8 = (
    "kmod-nvidia-latest-dkms",
    "nvidia-driver",
    "nvidia-driver-NVML",
    "nvidia-driver-NvFBCOpenGL",
    "nvidia-driver-cuda",
    "nvidia-driver-cuda-libs",
    "nvidia-driver-devel",
    "nvidia-driver-libs",
    "nvidia-kmod-common",
    "nvidia-persistenced",
)
# Rocky Linux 9.5: what a guide fetched with dnf of the stream nvidia-driver:570, and the open modules' package
# beside it; all of epoch 3 and release 1.el9.
EL9_VERSION = "570.133.20"
EL9 = (
    "kmod-nvidia-open-dkms",
    "nvidia-driver-cuda-libs",
    "nvidia-driver-cuda",
    "libnvidia-ml",
    "nvidia-kmod-common",
    "nvidia-persistenced",
)
# Ubuntu 24.04 with NVIDIA's repository beside its own, 2025-08: what apt told of the pattern nvidia-dkms-*.
NOBLE_DKMS = tuple(
    f"nvidia-dkms-{ending}"
    for ending in (
        *("470-server", "550-open", "430", "460", "465", "470", "510", "515", "520", "525", "530"),
        *("535", "545", "550", "555", "560", "565", "570", "575", "580", "460-server", "520-open"),
        *("570-server-open", "570-open", "550-server-open", "555-open", "565-server", "525-open"),
        *("515-server", "535-server", "575-server", "575-open", "525-server", "515-open"),
        *("560-open", "565-server-open", "530-open", "580-open", "535-server-open"),
        *("575-server-open", "550-server", "570-server", "565-open", "kernel", "535-open"),
    )
)
