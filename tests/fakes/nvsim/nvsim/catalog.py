# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The products that can be simulated, read from catalog/*.toml."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "catalog"
VOLTA, AMPERE, HOPPER = 5, 7, 9
STEP_MHZ = 15


@dataclass(frozen=True)
class GiProfile:
    """A GPU instance profile; memory in MiB, placements in memory slices."""

    name: str
    enum: int
    id: int
    max: int
    slices: int
    size: int
    placements: list[int]
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpegs: int
    ofas: int


@dataclass(frozen=True)
class CiProfile:
    """A compute instance profile inside a GPU instance; placements in compute slices."""

    id: int
    slices: int
    placements: list[int]


@dataclass(frozen=True)
class PowerProfile:
    """A workload power profile: NVML's number, its priority, lower ones first, and what it conflicts with."""

    id: int
    priority: int
    conflicts: list[int]


@dataclass(frozen=True)
class Product:
    """A GPU model. ``architecture`` is NVML's number.

    ``graphics_mhz`` are the lowest and the highest clock, in steps of STEP_MHZ, ``memory_mhz`` all that there are,
    ``video_mhz`` is the highest, 0 where nobody has seen it. ``bar1_mib`` is as large as the memory where nobody has.
    """

    key: str
    name: str
    architecture: int
    pci_device: int
    pci_subsystem: int
    pci_class: int
    memory_mib: int
    compute_capability: tuple[int, int]
    power_minimum_watts: int
    power_limit_watts: int
    graphics_mhz: list[int]
    memory_mhz: list[int]
    video_mhz: int
    bar1_mib: int
    nvlinks: int
    memory_slices: int
    compute_slices: int
    profiles: tuple[GiProfile, ...]
    power_profiles: tuple[PowerProfile, ...]

    @property
    def mig_capable(self) -> bool:
        """Return whether the GPU can be partitioned."""
        return bool(self.profiles)

    @property
    def mig_mode_in_inforom(self) -> bool:
        """Return whether MIG mode survives a reboot, as it does before Hopper."""
        return self.architecture < HOPPER

    def profile(self, number: int) -> GiProfile | None:
        """Return the profile with this id, or None."""
        return next((one for one in self.profiles if one.id == number), None)


CI_PROFILE_IDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}


def ci_profiles(gi: GiProfile) -> list[CiProfile]:
    """Return the compute instance profiles of a GPU instance."""
    found = []
    for slices, number in CI_PROFILE_IDS.items():
        if slices == gi.slices:
            found.append(CiProfile(number, slices, [0]))
        elif slices < gi.slices and 2 * slices <= gi.slices + 1:
            step = 4 if slices == 3 else slices
            starts = [at for at in range(0, gi.slices, step) if at + slices <= gi.slices]
            found.append(CiProfile(number, slices, starts))
    return found


@functools.cache
def product(key: str) -> Product:
    """Return a product by its key, such as ``h100-80``; KeyError names those there are."""
    path = FOLDER / f"{key}.toml"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.toml")))
        raise KeyError(f"unknown product {key!r}, expected one of: {known}")
    data = tomllib.loads(path.read_text())
    mig = data.pop("mig", {"memory_slices": 0, "compute_slices": 0, "profiles": []})
    powers = data.pop("power_profiles", [])
    data = {"video_mhz": 0, "bar1_mib": data["memory_mib"], **data}
    data["compute_capability"] = tuple(data["compute_capability"])
    return Product(
        key=key,
        **data,
        memory_slices=mig["memory_slices"],
        compute_slices=mig["compute_slices"],
        profiles=tuple(GiProfile(**row) for row in mig["profiles"]),
        power_profiles=tuple(PowerProfile(**row) for row in powers),
    )
