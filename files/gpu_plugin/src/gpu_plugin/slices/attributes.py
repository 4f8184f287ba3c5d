# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Attributes of devices for selectors: under NVIDIA's names as its own DRA driver has them, and under ours. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from .._shared._base.dra.names import MIG, NVIDIA, SHARE
from .._shared._base.text.shown import printable
from ..model.inventory import Inventory
from .targets import Target

STANDARD: Final = "resource.kubernetes.io"
LONGEST: Final = 64  # of a value in resource.k8s.io/v1
VERSION: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
ARCHITECTURES: Final = {
    3: "Kepler",
    5: "Maxwell",
    6: "Pascal",
    7: "Volta",
    8: "Ampere",
    9: "Hopper",
    10: "Blackwell",
    12: "Blackwell",
}
SPECIAL: Final = {(7, 5): "Turing", (8, 9): "Ada Lovelace"}
BRANDS: Final = (
    *("Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan"),
    *("NvidiaVApps", "NvidiaVPC", "NvidiaVCS", "NvidiaVWS", "NvidiaCloudGaming"),
    *("QuadroRTX", "NvidiaRTX", "Nvidia", "GeForceRTX", "TitanRTX"),
)  # by NVML's numbers
VERSIONS: Final = ("Version", "cudaComputeCapability")  # the ends of their names
Attributes = dict[str, dict[str, Any]]


def attributes(target: Target, inventory: Inventory, enforcement: str) -> Attributes:
    """Return a device's attributes. What is not known is left out."""
    view, uuid, name = target.view, target.view.gpu.uuid, _text(target.view.gpu.name)
    if target.type == MIG:
        uuid = target.mig.uuid if target.mig else ""  # one that is yet to be made has none
    ours: dict[str, Any] = {"type": target.type, "uuid": uuid, "productName": name}
    ours |= {"index": view.gpu.index, "numaNode": view.numa_node}
    if target.type == SHARE:
        ours["enforcement"] = enforcement
    standard = {"pciBusID": view.gpu.pci_bus_id, "pcieRoot": view.pcie_root}
    result = {
        **ours,
        **{f"{NVIDIA}/{key}": value for key, value in _nvidia(target, inventory).items()},
        **{f"{NVIDIA}/{key}": ours[key] for key in ("type", "uuid", "productName")},
        **{f"{STANDARD}/{key}": value for key, value in standard.items()},
    }
    typed: Attributes = {}
    for key in sorted(result):
        if isinstance(result[key], int):
            typed[key] = {"int": result[key]}
        elif result[key]:  # only attributes of NVIDIA's are versions
            is_version = key.startswith(NVIDIA) and key.endswith(VERSIONS)
            typed[key] = {"version" if is_version else "string": result[key]}
    return typed


def _nvidia(target: Target, inventory: Inventory) -> dict[str, str]:
    gpu, brand = target.view.gpu, target.view.brand
    capability = gpu.compute_capability
    result = {
        "brand": BRANDS[brand] if brand is not None and brand < len(BRANDS) else "",
        "architecture": SPECIAL.get(capability) or ARCHITECTURES.get(capability[0], ""),
        "cudaComputeCapability": _version(".".join(map(str, capability))),
        "driverVersion": _version(inventory.driver_version),
        "cudaDriverVersion": _version(inventory.cuda_version),
    }
    if target.type == MIG and target.profile:
        profile = target.mig.profile if target.mig else target.profile.name
        result |= {"parentUUID": gpu.uuid, "profile": profile}
    return result


def _version(text: str) -> str:
    """Return a version as in semantic versioning: 550.163.01 becomes 550.163.1; empty for no version."""
    match = VERSION.match(text)
    return ".".join(str(int(part or 0)) for part in match.groups()) if match else ""


def _text(value: str) -> str:
    return printable(value).encode()[:LONGEST].decode(errors="ignore")
