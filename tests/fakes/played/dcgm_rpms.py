# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's packages: cmake/packaging.cmake of NVIDIA's DCGM 4.6."""

from __future__ import annotations

from tests.fakes.played.rpms import Rpm

DCGM = "datacenter-gpu-manager-4"
CORE, VERSION = f"{DCGM}-core", "4.5.2"
NEEDS = {"cuda13": "core", "proprietary": "core", "proprietary-cuda13": "cuda13"}
PACKAGES = (
    Rpm(CORE, f"{VERSION}-1", ("Conflicts: datacenter-gpu-manager",), epoch=1),
    *(
        Rpm(
            f"{DCGM}-{name}", f"{VERSION}-1", (f"Requires: {DCGM}-{base} = 1:{VERSION}-1",), epoch=1
        )
        for name, base in NEEDS.items()
    ),
)
NAMES = {one.name for one in PACKAGES}
