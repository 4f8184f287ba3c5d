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
        character
        if character.isascii() and (character.isalnum() or character in " -_.:/+,()")
        else _code(character)
        for character in text
    )
    return f'"{"".join(plain)}"'


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def product(names: Sequence[str], *, among: bool) -> str:
    """Return that the product contains one of the words, or none of them, whatever their case.

    HAMi compares them with "NVIDIA-" and the product's name.
    """
    name = f'("NVIDIA-" + {OURS}.productName).lowerAscii()'
    contains = " || ".join(f"{name}.contains({quoted(word.lower())})" for word in names)
    there = f'"productName" in {OURS}'
    return f"{there} && ({contains})" if among else f"!({there}) || !({contains})"


def uuid(uuids: Sequence[str], *, mig: bool, among: bool) -> str:
    """Return that the GPU is one of these, or none of them; that of a MIG device is its parent."""
    of, name = (THEIRS, "parentUUID") if mig else (OURS, "uuid")
    is_listed = f"{of}.{name} in [{', '.join(map(quoted, uuids))}]"
    there = f'"{name}" in {of}'
    return f"{there} && {is_listed}" if among else f"!({there}) || !({is_listed})"


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
    condition = f"object.spec.schedulerName {_is_any(settings.schedulers)}"
    return f"{asks} || (has(object.spec.schedulerName) && {condition})"


def _is_any(texts: Sequence[str]) -> str:
    """Return the condition that a value is one of some texts."""
    if len(texts) == 1:
        return f"== {quoted(texts[0])}"
    return f"in [{', '.join(map(quoted, texts))}]"


def _asks(names: Iterable[str]) -> str:
    parts = (f"c.resources.{part}" for part in ("limits", "requests"))
    quoted_names = ", ".join(map(quoted, names))
    asks = " || ".join(
        f"(has({part}) && {part}.exists(k, k in [{quoted_names}]))" for part in parts
    )
    return f"{CONTAINERS}.exists(c, has(c.resources) && ({asks}))"


def _annotated() -> str:
    starts = " || ".join(f"k.startsWith({quoted(prefix)})" for prefix in PREFIXES)
    there = "object.metadata.annotations"
    return f"has({there}) && {there}.exists(k, {starts})"
