# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the nodes publish, as far as claims depend on it (ResourceSlices of resource.k8s.io/v1). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._shared._core.dra.names import DRIVER, MEMORY, MIG, NVIDIA, SHARE
from .quantity import MIB, whole
from .wishes import Wishes

MOST_SIZES: Final = 8  # alternatives of one request (resource.k8s.io/v1)


@dataclass(frozen=True)
class Device:
    """A device that may be asked for by its size; ``memory`` is in MiB, ``gpu`` is the GPU's UUID."""

    kind: str
    memory: int
    product: str = ""
    gpu: str = ""
    enforcement: str = ""

    def suits(self, wishes: Wishes) -> bool:
        """Tell whether a pod's annotations allow it."""
        name = f"NVIDIA-{self.product}".lower()
        use, avoid = wishes.use_types, wishes.avoid_types
        return not (
            (use and not any(word.lower() in name for word in use))
            or any(word.lower() in name for word in avoid)
            or (wishes.use_uuids and self.gpu not in wishes.use_uuids)
            or self.gpu in wishes.avoid_uuids
        )


@dataclass(frozen=True)
class Published:
    """The share and MIG devices of all nodes."""

    devices: tuple[Device, ...] = ()

    def sizes(self, kind: str, wishes: Wishes) -> list[int]:
        """Return the memory sizes of what suits a pod, the eight that most have; without any, of all."""
        of_kind = [one for one in self.devices if one.kind == kind]
        suiting = [one for one in of_kind if one.suits(wishes)] or of_kind
        common = Counter(one.memory for one in suiting).most_common(MOST_SIZES)
        return sorted(size for size, _count in common)

    def enforcements(self) -> set[str]:
        """Return how shares are enforced."""
        return {one.enforcement for one in self.devices if one.kind == SHARE}


def of(slices: Iterable[Mapping[str, Any]]) -> Published:
    """Return what ResourceSlices publish."""
    return Published(tuple(device for one in slices for device in devices(one)))


def devices(slice_object: Mapping[str, Any]) -> Iterator[Device]:
    """Yield the share and MIG devices of a ResourceSlice of ours."""
    spec = slice_object.get("spec") or {}
    if spec.get("driver") != DRIVER:
        return
    for one in spec.get("devices") or ():
        attributes = one.get("attributes") or {}
        kind = _text(attributes, "type")
        memory = _memory(
            one.get("capacity") or {}, MEMORY if kind == SHARE else f"{NVIDIA}/{MEMORY}"
        )
        if kind in (SHARE, MIG) and memory:
            gpu = (
                _text(attributes, "uuid")
                if kind == SHARE
                else _text(attributes, f"{NVIDIA}/parentUUID")
            )
            yield Device(
                kind,
                memory,
                _text(attributes, "productName"),
                gpu,
                _text(attributes, "enforcement"),
            )


def _text(attributes: Mapping[str, Any], name: str) -> str:
    found = attributes.get(name) or attributes.get(f"{DRIVER}/{name}") or {}
    return str(found.get("string", ""))


def _memory(capacity: Mapping[str, Any], name: str) -> int:
    found = capacity.get(name) or capacity.get(f"{DRIVER}/{name}") or {}
    return (whole(found.get("value")) or 0) // MIB
