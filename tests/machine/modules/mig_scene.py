# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Layouts to ask for, and what the driver itself has of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from nvsim.testing import Sim

from tests.support.waiting import eventually

Run = Callable[..., dict[str, Any]]
NAMES = {19: "1g.5gb", 14: "2g.10gb", 9: "3g.20gb", 5: "4g.20gb", 0: "7g.40gb"}
THREE = {"1g.5gb": 2, "3g.20gb": 1}
CREATE_GI = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_CI = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
DESTROY_GI, DESTROY_CI = "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy"
SET_MODE = "nvmlDeviceSetMigMode"
NO_PERMISSION, INSUFFICIENT_RESOURCES, IN_USE, UNKNOWN = 4, 23, 19, 999
RESET_REQUIRED = 16
CHANGES = (CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, SET_MODE)


def config(layout: dict[str, int], *devices: int) -> dict[str, Any]:
    """Return a configuration with one layout, for GPU 1 or those that are named."""
    entry = {
        "devices": list(devices or (1,)),
        "mig-enabled": bool(layout),
        "mig-devices": layout,
    }
    return {"version": "v1", "mig-configs": {"wanted": [entry]}}


def layout(sim: Sim, gpu: int = 1) -> list[tuple[str, int, int]]:
    """Return name, start and id of each instance that the driver itself has, all of them complete."""
    found = sim.ctl("status")["gpus"][gpu]["gis"]
    assert all(one["cis"] for one in found)
    return sorted((NAMES[one["profile"]], one["start"], one["id"]) for one in found)


def names(sim: Sim, gpu: int = 1) -> list[str]:
    """Return the names of the instances that the driver itself has."""
    return [name for name, _start, _id in layout(sim, gpu)]


def places(sim: Sim, gpu: int = 1) -> list[tuple[str, int]]:
    """Return name and start of the instances that the driver itself has."""
    return [(name, start) for name, start, _id in layout(sim, gpu)]


def hold_changes(sim: Sim) -> None:
    """Have each change of a GPU wait until it is let through."""
    for function in CHANGES:
        sim.ctl("hang", function=function)


def begins_a_change(sim: Sim, process: subprocess.Popen[str]) -> bool:
    """Wait until a run waits with a change; False where it has ended without one."""
    held = eventually(lambda: sim.ctl("waiting") or process.poll() is not None)
    return held is not True


def let_one_through(sim: Sim) -> None:
    """Have the driver carry out the change that waits."""
    sim.ctl("step")
    eventually(lambda: not sim.ctl("status")["permits"])


def let_all_through(sim: Sim) -> None:
    """Hold nothing any more; also what a killed run has begun is carried out, as in a kernel."""
    sim.ctl("clear-faults")
    eventually(lambda: not sim.ctl("status")["running"])
