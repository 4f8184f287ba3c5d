# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a GPU is a virtual one, by its PCI configuration space. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

WHOLE: Final = 256
STATUS, HAS_CAPABILITIES, FIRST = 0x06, 0x10, 0x34
VENDOR_SPECIFIC: Final = 0x09
MARK: Final = b"VF"
RECORDS: Final = 5
HOST_DRIVER, TEXT = 0, 10


@dataclass(frozen=True)
class Vgpu:
    """The driver of a virtual GPU's host; empty where it is not known."""

    host_driver_version: str = ""
    host_driver_branch: str = ""


def vgpu(config: bytes) -> Vgpu | None:
    """Return what a GPU's configuration space has of its host; None for a GPU that is real."""
    for capability in _vendor_specific(config):
        if capability[3:5] == MARK:
            return _host(capability)
    return None


def readable(config: bytes) -> bool:
    """Tell whether it is the whole space; a user without rights is shown the beginning only."""
    return len(config) >= WHOLE


def _vendor_specific(config: bytes) -> Iterator[bytes]:
    if not readable(config) or not config[STATUS] & HAS_CAPABILITIES:
        return
    seen: set[int] = set()
    at = config[FIRST]
    while at and at not in seen and at + 2 < len(config):
        seen.add(at)
        if config[at] == VENDOR_SPECIFIC:
            yield config[at : at + config[at + 2]]
        at = config[at + 1]


def _host(capability: bytes) -> Vgpu:
    """Look for the record of the host's driver among records of id, length and data."""
    at = RECORDS
    while at + 1 < len(capability):
        data = capability[at + 2 : at + 2 + 2 * TEXT]
        if capability[at] == HOST_DRIVER and len(data) == 2 * TEXT:
            version, branch = (
                part.split(b"\0")[0].decode("ascii", "replace")
                for part in (data[:TEXT], data[TEXT:])
            )
            return Vgpu(version, branch)
        if not capability[at + 1]:
            break
        at += capability[at + 1]
    return Vgpu()
