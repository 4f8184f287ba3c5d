# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is refused before anything is changed: systems, installations and firmware that will not do."""

from __future__ import annotations

from ..errors import NodeError
from . import branches as driver_branches
from . import secure_boot
from .packages import distributions
from .select import flavour
from .state import Desired, Observed


def check(observed: Observed, desired: Desired) -> None:
    """Refuse; NodeError says why. The check of a preinstalled driver is all that its source does."""
    if desired.source == "preinstalled":
        return
    if desired.runfile is None:
        check_platform(observed)
    kind = flavour(desired.kernel_modules, observed.gpus)
    if desired.runfile is None:
        _check_node(observed, desired, kind)
    elif not driver_branches.able([desired.version], observed.gpus):
        raise driver_branches.no_version([desired.version], observed.gpus)


def check_platform(observed: Observed) -> None:
    """Refuse a distribution or release whose packages are not known."""
    if distributions.supported(observed.distribution, observed.codename) is None:
        raise NodeError(
            f"{observed.title or observed.distribution!r} is not supported",
            cause=f"found ID={observed.distribution} release {observed.codename or '(none)'}; "
            f"expected {distributions.in_words()}",
            hint="install the driver yourself and leave this module out",
        )


def _check_node(observed: Observed, desired: Desired, kind: str) -> None:
    package = observed.kernel_package(kind)
    if observed.installed(package):
        return
    if observed.nvidia_installer and not any(
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
