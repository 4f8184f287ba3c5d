# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Selectors of devices in CEL, as Kubernetes' DRA runs it. What users wrote is quoted, never pasted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_plugin._shared._base.dra.names import DRIVER, NVIDIA

OURS: Final = f'device.attributes["{DRIVER}"]'
THEIRS: Final = f'device.attributes["{NVIDIA}"]'
NEVER: Final = "false"


def quoted(text: str) -> str:
    """Return a text as a literal: each character that is not plain is written as its code."""
    plain = (
        one if one.isascii() and (one.isalnum() or one in " -_.:/+,()") else _code(one)
        for one in text
    )
    return f'"{"".join(plain)}"'


def _code(one: str) -> str:
    number = ord(one)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def product(words: Sequence[str], *, among: bool) -> str:
    """Return that the product contains one of the words, or none of them, whatever their case.

    HAMi compares them with "NVIDIA-" and the product's name.
    """
    name = f'("NVIDIA-" + {OURS}.productName).lowerAscii()'
    found = " || ".join(f"{name}.contains({quoted(word.lower())})" for word in words)
    there = f'"productName" in {OURS}'
    return f"{there} && ({found})" if among else f"!({there}) || !({found})"


def uuid(uuids: Sequence[str], *, mig: bool, among: bool) -> str:
    """Return that the GPU is one of these, or none of them; that of a MIG device is its parent."""
    of, name = (THEIRS, "parentUUID") if mig else (OURS, "uuid")
    found = f"{of}.{name} in [{', '.join(map(quoted, uuids))}]"
    there = f'"{name}" in {of}'
    return f"{there} && {found}" if among else f"!({there}) || !({found})"


def enforcement(name: str, *, equal: bool = True) -> str:
    """Return that shares are enforced so, or otherwise."""
    return f"{OURS}.enforcement {'==' if equal else '!='} {quoted(name)}"


def numa(node: int) -> str:
    """Return that a device is on a NUMA node."""
    return f'"numaNode" in {OURS} && {OURS}.numaNode == {node}'


def memory(domain: str, mib: int, *, least: bool = False) -> str:
    """Return that the capacity is just that, or at least."""
    return f'device.capacity["{domain}"].memory.compareTo(quantity("{mib}Mi")) {">=" if least else "=="} 0'
