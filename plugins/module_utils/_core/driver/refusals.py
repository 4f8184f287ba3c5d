# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is refused before anything is changed: systems, installations and firmware that will not do."""

from __future__ import annotations

from ..errors import NodeError
from . import secure_boot
from .packages.names import SUPPORTED
from .select import Desired, Observed


def check_platform(observed: Observed) -> None:
    if observed.distribution not in observed.names.ids or (
        observed.codename not in observed.names.releases
    ):
        supported = ", ".join(
            f"{one.title} {number}" + (f" ({codename})" if codename != number else "")
            for one in SUPPORTED
            for codename, number in one.releases.items()
        )
        raise NodeError(
            f"{observed.title or observed.distribution!r} is not supported",
            cause=f"found ID={observed.distribution} release {observed.codename or '(none)'}; "
            f"expected {supported}",
            hint="install the driver yourself and leave this module out",
        )


def check_node(observed: Observed, desired: Desired, kind: str) -> None:
    package = observed.kernel_package(kind)
    if observed.installed(package):
        return
    if observed.foreign_installer and not any(
        observed.installed(name) for name in observed.packages if observed.names.is_kernel(name)
    ):
        raise NodeError(
            "a driver from NVIDIA's own installer is on the node",
            cause="/usr/bin/nvidia-uninstall is there, and its files would mix with the packages",
            hint="run nvidia-uninstall on the node, then run again",
        )
    signed = package in observed.names.signed
    if observed.signing_key and desired.secure_boot == "refuse" and not signed:
        secure_boot.refuse(observed.signing_key)
