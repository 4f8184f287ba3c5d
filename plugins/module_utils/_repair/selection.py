# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names by which users choose GPUs: a UUID, a PCI address, NVML's index, or the serial number of a board."""

from __future__ import annotations

import re
import typing as t

PCI_ADDRESS = re.compile(
    "(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2})([.][0-7])?", re.IGNORECASE | re.ASCII
)


class NamedGpu(t.Protocol):
    """A GPU with its names, each empty where it is not known."""

    @property
    def uuid(self) -> str:
        """Return its UUID."""

    @property
    def pci(self) -> str:
        """Return its PCI address as sysfs writes it."""

    @property
    def serial(self) -> str:
        """Return its serial number."""


G = t.TypeVar("G", bound=NamedGpu)


def parse_pci_address(text: str) -> str:
    """Return a PCI address as sysfs writes it, such as 0000:3b:00.0, or nothing if the text is none.

    The text may lack the domain or the function, and have a domain of up to eight digits as NVML's.
    """
    match = PCI_ADDRESS.fullmatch(text)
    if match is None:
        return ""
    return f"{int(match[1] or '0', 16):04x}:{match[2]}{match[3] or '.0'}".lower()


def gpus_named(name: str, gpus: t.Iterable[G], by_index: t.Mapping[int, G]) -> t.List[G]:
    """Return the GPUs of a name, several for the serial number of a board that has several."""
    name, known = name.strip(), list(gpus)
    address = parse_pci_address(name)
    if not name:
        return []
    if address:
        return [gpu for gpu in known if gpu.pci == address]
    by_uuid = [gpu for gpu in known if gpu.uuid.lower() == name.lower()]
    if not by_uuid and name.isdecimal() and len(name) < 5 and int(name) in by_index:
        return [by_index[int(name)]]
    return by_uuid or [gpu for gpu in known if gpu.serial == name]
