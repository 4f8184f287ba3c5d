# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that is on the node already: nothing is installed, and it must be the one that is asked for."""

from __future__ import annotations

from ..._base.errors import InputError, NodeError
from ..branches import module_type
from ..desired import Desired
from ..facts import DriverState
from ..family import Family
from ..packages.names import Names
from ..packages.versions import Choice, Draft


def plan(_family: Family, state: DriverState, desired: Desired, _check_mode: bool) -> Draft:
    """Return the loaded driver as the choice.

    Raises:
        NodeError: if no driver is loaded, or its library is missing.
        InputError: if it is not the driver that is asked for.
    """
    driver = state.loaded.driver
    if driver is None:
        raise NodeError(
            "no NVIDIA driver is loaded",
            cause="source is preinstalled, so nothing is installed or loaded here",
            hint="install and load the driver (modprobe nvidia), or set source to distribution",
        )
    if not driver.version.fits(desired.version):
        expected = f"the version that is loaded, {driver.version}"
        raise InputError.of("version", desired.version, expected)
    kind = desired.kernel.module_type
    if kind != "auto" and module_type(kind, state.machine.gpus) != driver.module_type:
        expected = f"the loaded kernel module type, {driver.module_type}"
        raise InputError.of("kernel_modules", kind, expected)
    if not state.loaded.libraries:
        raise NodeError(
            "the driver's library libnvidia-ml.so is not on the node",
            cause=f"the kernel modules of {driver.version} are loaded without their user space",
            hint="install the user space of the same version; one in a folder of its own needs that folder in "
            "/etc/ld.so.conf.d, and ldconfig",
        )
    return (), Choice(driver.module_type, driver.version, {}, (), Names())
