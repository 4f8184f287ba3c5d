# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's devices on the PCI bus."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .products import architecture

NVIDIA = 0x10DE
DISPLAY, BRIDGE_OTHER = 0x03, 0x0680
HEXADECIMAL = re.compile(r"(0x)?[0-9a-fA-F]{1,8}\n?")
NODE = re.compile(r"-?[0-9]{1,6}\n?")


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
    numa = files.get("numa_node")
    node = int(numa or 0) if NODE.fullmatch(numa or "") else -1
    kind = "other"
    if pci_class >> 16 == DISPLAY:
        kind = "gpu"
    elif pci_class >> 8 == BRIDGE_OTHER:
        kind = "nvswitch"
    return PciDevice(
        address,
        device_id,
        pci_class,
        node if node >= 0 else None,
        kind,
        architecture(device_id) if kind == "gpu" else "",
    )


def _number(value: t.Optional[str]) -> t.Optional[int]:
    return int(value, 16) if value and HEXADECIMAL.fullmatch(value) else None
