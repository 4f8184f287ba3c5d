# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The NVML functions, one Python function for each. Importing this package registers them."""

from __future__ import annotations

from . import (
    clocks,
    compute,
    device,
    events,
    faults,
    limits,
    mig,
    modes,
    processes,
    profiles,
    system,
    topology,
)

__all__ = [
    "clocks",
    "compute",
    "device",
    "events",
    "faults",
    "limits",
    "mig",
    "modes",
    "processes",
    "profiles",
    "system",
    "topology",
]
