# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The check of a driver that somebody else has installed."""

from __future__ import annotations

import typing as t

from ...errors import InputError, NodeError
from ..branches import fits
from ..select import Draft, flavour
from ..state import Desired, Observed


def plan(observed: Observed, desired: Desired, _check_mode: bool) -> Draft:
    """Return no steps; NodeError where the driver that is there will not do."""
    if observed.loaded is None:
        raise NodeError(
            "no NVIDIA driver is loaded",
            cause="source is preinstalled, so nothing is installed or loaded here",
            hint="install and load the driver (modprobe nvidia), or set source to distribution",
        )
    version, kind = observed.loaded
    wanted = desired.version
    if not fits(version, wanted):
        raise InputError.of("version", wanted, f"the version that is loaded, {version}")
    if desired.kernel_modules != "auto":
        flavour(desired.kernel_modules, observed.gpus)
        if desired.kernel_modules != kind:
            raise InputError.of(
                "kernel_modules", desired.kernel_modules, f"the loaded kernel module type, {kind}"
            )
    if not observed.libraries:
        raise NodeError(
            "the driver's library libnvidia-ml.so is not on the node",
            cause=f"the kernel modules of {version} are loaded without their user space",
            hint="install the user space of the same version",
        )
    reasons: t.Tuple[str, ...] = ()
    if version not in observed.libraries:
        found = ", ".join(observed.libraries)
        reasons = (f"version {version} of the driver is loaded, the libraries are of {found}",)
    return Draft((), reboot=reasons)
