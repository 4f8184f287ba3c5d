# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU's architecture by its PCI device id, for the time before a driver can tell.

The ids of one architecture lie in blocks; the blocks follow the public PCI id list.
"""

from __future__ import annotations

import typing as t

ORDER = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "hopper", "ada", "blackwell")

BLOCKS: t.Tuple[t.Tuple[int, int, str], ...] = (
    (0x0FC0, 0x12BF, "kepler"),
    (0x1340, 0x17FF, "maxwell"),
    (0x15F0, 0x15FF, "pascal"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2080, 0x20FF, "ampere"),
    (0x2180, 0x21FF, "turing"),
    (0x2200, 0x22FF, "ampere"),
    (0x2300, 0x23FF, "hopper"),
    (0x2400, 0x25FF, "ampere"),
    (0x2680, 0x28FF, "ada"),
    (0x2900, 0x2FFF, "blackwell"),
    (0x3180, 0x32FF, "blackwell"),
)


def architecture(device_id: int) -> str:
    """Return the architecture's name in lower case, or an empty text for an id that is not known."""
    # Blocks may lie within each other: the smallest that holds the id counts.
    found = [(last - first, name) for first, last, name in BLOCKS if first <= device_id <= last]
    return min(found)[1] if found else ""
