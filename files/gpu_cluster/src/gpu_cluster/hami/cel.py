# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CEL expressions: selectors of devices, and the match condition of pods. What users wrote is quoted. Pure."""

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
PREFIXES: Final = ("nvidia.com/", "hami.io/")  # of the annotations that are read


def quoted(text: str) -> str:
    """Return a text as a literal: each character that is not plain is written as its code."""
    literal = ""
    for character in text:
        number = ord(character)
        if character.isascii() and (character.isalnum() or character in " -_.:/+,()"):
            literal += character
        else:
            literal += f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
    return f'"{literal}"'


def product(names: Sequence[str], *, exclude: bool) -> str:
    """Return an expression that matches devices whose product contains any of the names, or none if ``exclude``.

    The case does not matter. HAMi compares the names with "NVIDIA-" and the product's name.
    """
    name = f'("NVIDIA-" + {OURS}.productName).lowerAscii()'
    contains = " || ".join(f"{name}.contains({quoted(word.lower())})" for word in names)
    there = f'"productName" in {OURS}'
    return f"!({there}) || !({contains})" if exclude else f"{there} && ({contains})"


def uuid(uuids: Sequence[str], *, mig: bool, exclude: bool) -> str:
    """Return an expression that matches these GPUs, or all others if ``exclude``; of a MIG device it is the parent."""
    of, name = (THEIRS, "parentUUID") if mig else (OURS, "uuid")
    is_listed = f"{of}.{name} in [{', '.join(map(quoted, uuids))}]"
    there = f'"{name}" in {of}'
    return f"!({there}) || !({is_listed})" if exclude else f"{there} && {is_listed}"


def enforcement(name: str, *, equal: bool = True) -> str:
    """Return an expression that matches shares of an enforcement, or of any other."""
    return f"{OURS}.enforcement {'==' if equal else '!='} {quoted(name)}"


def numa(node: int) -> str:
    """Return an expression that matches devices on a NUMA node."""
    return f'"numaNode" in {OURS} && {OURS}.numaNode == {node}'


def memory(domain: str, mib: int, *, least: bool = False) -> str:
    """Return an expression that matches devices with exactly this memory, or at least."""
    return f'device.capacity["{domain}"].memory.compareTo(quantity("{mib}Mi")) {">=" if least else "=="} 0'


def expression(settings: Settings) -> str:
    """Return the matchCondition of the configuration: pods that may get a claim, or have one of HAMi's schedulers.

    API servers ask about no others, so that these do not wait for a webhook.

    A count alone asks for whole GPUs, which nodes have under Kubernetes' own name: only annotations, another name,
    or a default memory of which it gets a share make a claim of it.
    """
    names = settings.names
    if names.count != Names.count or settings.shares_counts:
        asks = _asks(names.all)
    else:
        starts = " || ".join(f"k.startsWith({quoted(prefix)})" for prefix in PREFIXES)
        keys = "object.metadata.annotations"
        annotated = f"has({keys}) && {keys}.exists(k, {starts})"
        asks = f"{_asks(names.all[1:])} || ({annotated} && {_asks((names.count,))})"
    schedulers = ", ".join(map(quoted, settings.schedulers))
    condition = f"in [{schedulers}]" if len(settings.schedulers) > 1 else f"== {schedulers}"
    named = "object.spec.schedulerName"
    return f"{asks} || (has({named}) && {named} {condition})"


def _asks(names: Iterable[str]) -> str:
    parts = (f"c.resources.{part}" for part in ("limits", "requests"))
    quoted_names = ", ".join(map(quoted, names))
    asks = " || ".join(
        f"(has({part}) && {part}.exists(k, k in [{quoted_names}]))" for part in parts
    )
    return f"{CONTAINERS}.exists(c, has(c.resources) && ({asks}))"
