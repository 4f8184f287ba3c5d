# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's devices on the PCI bus, and the architecture of GPUs by their ids, before a driver can tell."""

from __future__ import annotations

import dataclasses
import re
import typing as t

NVIDIA = 0x10DE
DISPLAY, BRIDGE_OTHER = 0x03, 0x0680
HEXADECIMAL = re.compile(r"(0x)?[0-9a-fA-F]{1,8}\n?")
NODE = re.compile(r"-?[0-9]{1,6}\n?")
# The ids of one architecture lie in blocks; the blocks follow the public PCI id list.
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


@dataclasses.dataclass(frozen=True)
class PciDevice:
    """A PCI device of NVIDIA's; ``kind`` is gpu, nvswitch or other."""

    address: str
    device_id: int
    pci_class: int
    numa_node: t.Optional[int]
    kind: str
    architecture: str


def nvidia_device(address: str, files: t.Mapping[str, t.Optional[str]]) -> t.Optional[PciDevice]:
    """Return the device that sysfs files (vendor, device, class, numa_node) describe, if it is NVIDIA's."""
    if _number(files.get("vendor")) != NVIDIA:
        return None
    device_id, pci_class = _number(files.get("device")) or 0, _number(files.get("class")) or 0
    numa = files.get("numa_node") or ""
    node = int(numa) if NODE.fullmatch(numa) and int(numa) >= 0 else None
    kind = "other"
    if pci_class >> 16 == DISPLAY:
        kind = "gpu"
    elif pci_class >> 8 == BRIDGE_OTHER:
        kind = "nvswitch"
    known = architecture(device_id) if kind == "gpu" else ""
    return PciDevice(address, device_id, pci_class, node, kind, known)


def architecture(device_id: int) -> str:
    """Return the architecture's name in lower case, or an empty text for an id that is not known."""
    # Blocks may lie within each other: the smallest that holds the id counts.
    found = [(last - first, name) for first, last, name in BLOCKS if first <= device_id <= last]
    return min(found)[1] if found else ""


def _number(value: t.Optional[str]) -> t.Optional[int]:
    return int(value, 16) if value and HEXADECIMAL.fullmatch(value) else None
