# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for the RHEL family."""

from __future__ import annotations

import re
import typing as t

from ...errors import NodeError
from ..names import Names, Offer, Wanted, fabric
from . import precompiled

# RPM Fusion's and ELRepo's packages of the driver, which exclude NVIDIA's.
OTHERS = ("akmod-nvidia", "xorg-x11-drv-nvidia", "nvidia-x11-drv")
DKMS = {"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"}
# dnf's plugin, dkms and who brings it: EPEL in the repositories of the distributions, Oracle's copy of it.
NEEDS = (
    "python3-dnf-plugin-versionlock",
    "dkms",
    "epel-release",
    *(f"oracle-epel-release-el{one}" for one in (8, 9, 10)),
)
AMAZONS_FIRST = "6.1"  # the packages of its later kernels have their number in their names


def headers(kernel: str) -> t.Tuple[str, str]:
    """Return the package of a kernel's headers, whose variants have others, and what ties both, where DKMS needs it."""
    variant = re.search(r"\+(64k|rt)$", kernel)
    if variant:
        return f"kernel-{variant[1]}-devel-{kernel[: variant.start()]}", ""
    if re.search(r"el\d+uek\b", kernel):
        return "kernel-uek-devel-{}", ""
    amazon = re.match(r"(\d+\.\d+)\..*\.amzn2023\b", kernel)
    if amazon:
        number = "" if amazon[1] == AMAZONS_FIRST else amazon[1]
        return f"kernel{number}-devel-{{}}", ""
    return "kernel-devel-{}", "kernel-devel-matched-{}"


def rhel_packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages; the fabric manager's name and precompiled kernel modules depend on what is offered."""
    devel, tie = headers(wanted.kernel)
    trusted = {"open": True, "proprietary": wanted.trusted}
    kinds = [kind for kind in DKMS if wanted.precompiled and (trusted[kind] or not wanted.signs)]
    ready = {kind: precompiled.choose(offered, wanted, kind) for kind in kinds}
    kernel = {kind: (ready.get(kind) or (name,))[0] for kind, name in DKMS.items()}
    built = kernel[wanted.module_type] in DKMS.values()
    return Names(
        title="RHEL family",
        family="rhel",
        kernel=kernel,
        user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
        persistenced="nvidia-persistenced",
        headers=devel if built else "",
        tie=tie if built else "",
        headers_first=built,  # rpm runs the script that builds wherever the transaction puts it
        signed=frozenset(one for kind, some in ready.items() for one in some if trusted[kind]),
        beside=tuple(ready.get(wanted.module_type, ())[1:]),
        precompiled=tuple(filter(precompiled.is_precompiled, sorted(offered.names))),
        needs=NEEDS,
        pattern=f"{'|'.join(DKMS.values())}|{precompiled.PATTERN}",
        **fabric(offered, wanted, "nvidia-fabric-manager"),
    )


def refuse_others(installed: t.Iterable[str]) -> None:
    """Refuse where the driver of another packager is installed."""
    found = sorted(name for name in installed if name.startswith(OTHERS))
    if found:
        raise NodeError(
            f"{', '.join(found)} of another packager of the driver, such as RPM Fusion, would have to go, and this "
            "module has not added them",
            cause="NVIDIA's packages and those exclude each other",
            hint=f"keep that driver with source: preinstalled, or remove it: dnf remove {' '.join(found)}",
        )
