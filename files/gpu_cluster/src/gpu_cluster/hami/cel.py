# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Kubernetes runs in CEL: selectors of devices, and which pods are reviewed. What users wrote is quoted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpu_plugin._shared._base.dra.names import DRIVER, NVIDIA

from .settings import Names, Settings

OURS: Final = f'device.attributes["{DRIVER}"]'
THEIRS: Final = f'device.attributes["{NVIDIA}"]'
NEVER: Final = "false"
CONTAINERS: Final = (
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
)
PREFIXES: Final = ("nvidia.com/", "hami.io/")  # of the annotations that are heeded


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


def expression(settings: Settings) -> str:
    """Return of which pods a claim may be made, or another scheduler's: the matchCondition of the configuration (1.36).

    API servers ask about no others, so that these do not wait for a webhook.

    A count alone asks for whole GPUs, which nodes have under Kubernetes' own name: only annotations, another name,
    or a default memory that it gets a share of make a claim of it.
    """
    names = settings.names
    if names.count != Names.count or settings.shares_counts:
        asks = _asks(names.all)
    else:
        asks = f"{_asks(names.all[1:])} || ({_annotated()} && {_asks((names.count,))})"
    found = f"object.spec.schedulerName {_is_any(settings.schedulers)}"
    return f"{asks} || (has(object.spec.schedulerName) && {found})"


def _is_any(texts: Sequence[str]) -> str:
    """Return the condition that a value is one of some texts."""
    if len(texts) == 1:
        return f"== {quoted(texts[0])}"
    return f"in [{', '.join(map(quoted, texts))}]"


def _asks(names: Iterable[str]) -> str:
    parts = (f"c.resources.{part}" for part in ("limits", "requests"))
    words = ", ".join(map(quoted, names))
    found = " || ".join(f"(has({part}) && {part}.exists(k, k in [{words}]))" for part in parts)
    return f"{CONTAINERS}.exists(c, has(c.resources) && ({found}))"


def _annotated() -> str:
    found = " || ".join(f"k.startsWith({quoted(one)})" for one in PREFIXES)
    there = "object.metadata.annotations"
    return f"has({there}) && {there}.exists(k, {found})"
