# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why NVML does not start: the driver is not up yet, or it is loaded and something else is wrong."""

from __future__ import annotations

import re

from ..._base.gpu import LIBRARY_NOT_FOUND, NO_BINDINGS, VERSION_MISMATCH, NvmlError
from ..._machine.host import Host
from ..._machine.linker import Linker
from . import device_nodes
from .facts import loaded_driver, without_nvml

NAME = "libnvidia-ml.so.1"
MAPPED = re.compile(r" (/\S*/libnvidia-ml\.so\.\S+)$", re.M)


def explain(host: Host, error: NvmlError) -> bool:
    """Return whether NVML may start once the driver is brought up; the error gets its cause and next step.

    If a driver is loaded, only the Python bindings, its libraries, a reload or its device nodes may still be missing.
    """
    driver = loaded_driver(host)
    path = _library(host)
    awaited = {NO_BINDINGS, VERSION_MISMATCH, *(() if path else (LIBRARY_NOT_FOUND,))}
    if driver is None or error.code in awaited or device_nodes.problems(host):
        error.hint = error.hint or without_nvml(host)
        return True
    error.message += f", although the driver {driver.version} is loaded"
    error.hint = "see the kernel's log for NVRM messages (journalctl -k -g NVRM), then run again"
    real = Linker(host).real(path) or path
    if path:
        error.cause += f"; the loader takes {path}{'' if real == path else f', which is {real}'}"
    if path and not real.endswith(f".{driver.version}"):
        error.stays = True
        error.hint = (
            f"that is not the library of the driver {driver.version}: remove it, or its folder from /etc/ld.so.conf.d"
            " and LD_LIBRARY_PATH, run ldconfig, then run again"
        )
    return False


def _library(host: Host) -> str:
    """Return the NVML that this process has loaded, or the one that the loader would take, empty if there is none."""
    loaded = MAPPED.search(host.read("/proc/self/maps") or "")
    if loaded:
        return loaded[1]
    return next((path for name, path in Linker(host).cache() if name == NAME), "")
