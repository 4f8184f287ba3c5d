# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory and compute capability of NVIDIA's GPUs, by a word of their product's name.

Of NVIDIA's data sheets and the CUDA page of compute capabilities; memory is what NVML says of such a GPU, in MiB.
What is not listed needs both in the inventory.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpu_plugin._shared._base.gpu import GiProfile
from gpu_plugin._shared._mig.products import PRODUCTS


class Product(NamedTuple):
    """A product: its memory in MiB, and the GPUs' compute capability."""

    memory: int
    capability: tuple[int, int]


KNOWN: Final = {
    "V100 16GB": Product(16384, (7, 0)),
    "V100 32GB": Product(32768, (7, 0)),
    "T4": Product(15360, (7, 5)),
    "A10": Product(23028, (8, 6)),
    "A30": Product(24576, (8, 0)),
    "A100 40GB": Product(40960, (8, 0)),
    "A100 80GB": Product(81920, (8, 0)),
    "A800 40GB": Product(40960, (8, 0)),
    "A800 80GB": Product(81920, (8, 0)),
    "L4": Product(23034, (8, 9)),
    "L40": Product(46068, (8, 9)),
    "L40S": Product(46068, (8, 9)),
    "H100 80GB": Product(81559, (9, 0)),
    "H800 80GB": Product(81559, (9, 0)),
    "H200": Product(143771, (9, 0)),
}
MIG_NAMES: Final = {"H200": "H200 141GB"}  # where that table says more than NVML


def known(name: str) -> str:
    """Return the key of a product's name, such as A100 80GB for NVIDIA A100-SXM4-80GB; empty if it has none."""
    words = set(re.split(r"[\s/_-]+", name.upper()))
    found = [key for key in KNOWN if set(key.split()) <= words]
    return max(found, key=len, default="")


def profiles(key: str, memory: int) -> tuple[GiProfile, ...]:
    """Return the MIG profiles of a product, with about the memory that each has: its part of the memory slices."""
    key = MIG_NAMES.get(key, key)
    found = PRODUCTS[key][1] if key in PRODUCTS else ()
    slices = max((end for one in found for end in map(sum, one.placements)), default=1)
    return tuple(
        GiProfile(
            one.id,
            one.enum,
            one.name,
            one.slices,
            one.max_count,
            memory * one.placements[0][1] // slices,
            one.placements,
        )
        for one in found
    )
